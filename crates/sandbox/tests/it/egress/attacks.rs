//! Ways around the list of hosts. Every sink is reached by its control.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;

use glasshouse_sandbox::egress::Denial;

use super::support::*;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok";

#[test]
fn a_listed_host_is_reached_and_recorded() {
    let sink = Sink::http(OK);
    let scene = Scene::to(&["a.test"], &sink);
    let answer = scene.ask(&get("http://A.test./x?key=1"));
    assert_eq!(answer, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
    assert_eq!(sink.next(), "GET /x?key=1 HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
    let record = scene.record();
    assert_eq!(record.host.as_ref().unwrap().to_string(), "a.test");
    assert_eq!((record.port, &*record.method), (80, "GET"));
    assert_eq!(record.path.as_deref(), Some("/x"), "a query may hold secrets");
    assert_eq!(record.address, Some("1.1.1.1".parse().unwrap()));
    assert_eq!(record.denial, None);
    assert!(record.sent_bytes > 50 && record.received_bytes > 50, "{record:?}");
    let asked = scene.gate.asked.lock().unwrap();
    assert_eq!((asked.len(), asked[0].path.as_deref()), (1, Some("/x")));
}

#[test]
fn bodies_and_waiting_clients_get_through() {
    let sink = Sink::http(OK);
    let scene = Scene::to(&["a.test"], &sink);
    let check = |head: &str, body: &str, arrived: &str| {
        let head = format!("POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\n{head}\r\n");
        let answer = scene.ask(format!("{head}{body}").as_bytes());
        assert!(answer.ends_with("\r\n\r\nok"), "{head}: {answer}");
        let got = sink.next();
        assert!(got.ends_with(arrived), "{head}: {got}");
        assert!(!got.contains("xpect"), "{got}");
        assert_eq!(scene.record().denial, None);
    };
    check("Content-Length: 4\r\n", "body", "\r\n\r\nbody");
    check(
        "Transfer-Encoding: chunked\r\n",
        "4;x\r\nbody\r\n0\r\nT: x\r\n\r\n",
        "4\r\nbody\r\n0\r\n\r\n",
    );
    check("Content-Length: 4\r\nExpect: 100-continue\r\n", "body", "\r\n\r\nbody");
}

#[test]
fn a_tunnel_carries_what_belongs_to_its_host() {
    let sink = Sink::raw();
    let scene = Scene::to(&["a.test"], &sink);
    let mut stream = scene.tunnel("a.test:443");
    let first = hello(Some("a.test"), &[0x0a0a]);
    // In pieces: nothing goes out before the whole is known.
    for byte in &first {
        stream.write_all(&[*byte]).unwrap();
    }
    let mut pong = [0; 4];
    stream.read_exact(&mut pong).unwrap();
    stream.write_all(b"more").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_all(&mut stream), "");
    let expected = [first, b"more".to_vec()].concat();
    assert_eq!(sink.next(), String::from_utf8_lossy(&expected));
    let record = scene.record();
    assert_eq!((record.denial, &*record.method, record.path), (None, "CONNECT", None));
    let moved = (record.sent_bytes, record.received_bytes);
    assert_eq!(moved, (u64::try_from(expected.len()).unwrap(), 4));
}

#[test]
fn e3_a_tunnel_to_one_host_carries_nothing_for_another() {
    let sink = Sink::raw();
    let scene = Scene::to(&["a.test", "b.test"], &sink);
    let check = |first: &[u8], expected: Denial| {
        let mut stream = scene.tunnel("a.test:443");
        stream.write_all(first).unwrap();
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(answer, [21, 3, 3, 0, 2, 2, 49], "{expected}");
        let record = scene.record();
        assert_eq!((record.denial, record.sent_bytes), (Some(expected), 0));
        assert!(scene.lines.dialled.lock().unwrap().is_empty(), "{expected}");
        sink.control(first);
    };
    check(&hello(Some("b.test"), &[]), Denial::SniMismatch);
    check(&hello(Some("x.a.test"), &[]), Denial::SniMismatch);
    check(&hello(Some("127.0.0.1"), &[]), Denial::SniMismatch);
    check(&hello(None, &[]), Denial::NoSni);
    check(&hello(Some("a.test"), &[0xfe0d]), Denial::Ech);
    check(&hello(Some("b.test"), &[0xfe0d]), Denial::Ech);
    check(b"GET / HTTP/1.1\r\nHost: b.test\r\n\r\n", Denial::NotTls);
    check(b"SSH-2.0-x\r\n", Denial::NotTls);
    check(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Denial::NotTls);
    check(&hello(Some("a.test"), &[])[..20], Denial::NotTls);
}

/// The failure: a server may ask a client for another hello, and goes by the name in that one, which
/// nobody had read.
#[test]
fn e3_the_name_in_a_second_hello_is_checked_too() {
    // As a server that asks again and then notes what it was told.
    let sink = Sink::new(|mut stream| {
        let mut got = vec![0; 4096];
        let read = stream.read(&mut got).unwrap_or(0);
        got.truncate(read);
        let _ = stream.write_all(&hello_again());
        let _ = stream.read_to_end(&mut got);
        got
    });
    let first = hello(Some("a.test"), &[]);
    let check = |second: &[u8], expected: Option<Denial>| {
        let scene = Scene::to(&["a.test", "b.test"], &sink);
        let mut stream = scene.tunnel("a.test:443");
        stream.write_all(&first).unwrap();
        let mut answer = vec![0; hello_again().len()];
        stream.read_exact(&mut answer).unwrap();
        stream.write_all(second).unwrap();
        let _ = stream.shutdown(Shutdown::Write);
        read_all(&mut stream);
        let arrived = match expected {
            Some(_) => first.clone(),
            None => [&first, second].concat(),
        };
        assert_eq!(sink.next(), String::from_utf8_lossy(&arrived), "{expected:?}");
        assert_eq!(scene.record().denial, expected);
    };
    check(&hello(Some("a.test"), &[]), None);
    check(&[&[20, 3, 3, 0, 1, 1][..], &hello(Some("a.test"), &[])].concat(), None);
    check(&hello(Some("b.test"), &[]), Some(Denial::SniMismatch));
    check(
        &[&[20, 3, 3, 0, 1, 1][..], &hello(Some("b.test"), &[])].concat(),
        Some(Denial::SniMismatch),
    );
    check(&hello(None, &[]), Some(Denial::NoSni));
    check(&hello(Some("a.test"), &[0xfe0d]), Some(Denial::Ech));
    check(b"GET / HTTP/1.1\r\n\r\n", Some(Denial::NotTls));
}

#[test]
fn e3_the_host_header_is_the_target() {
    let sink = Sink::http(OK);
    let scene = Scene::to(&["a.test", "b.test"], &sink);
    let check = |text: &str, expected: Denial| {
        scene.refused(text.as_bytes(), expected);
        sink.control(text.as_bytes());
    };
    check("GET http://a.test/ HTTP/1.1\r\nHost: b.test\r\n\r\n", Denial::HostMismatch);
    check("CONNECT a.test:443 HTTP/1.1\r\nHost: b.test:443\r\n\r\n", Denial::HostMismatch);
    check("GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n", Denial::Malformed);
    // An HTTP/2 `:authority` without TLS has no way in at all.
    check("PRI * HTTP/2.0\r\n\r\n", Denial::Malformed);
    assert!(scene.lines.dialled.lock().unwrap().is_empty());
}

#[test]
fn e4_other_spellings_are_the_same_host_or_refused() {
    let sink = Sink::http(OK);
    let scene = Scene::to(&["a.test"], &sink);
    scene.lines.set("127.0.0.1", &sink);
    for same in ["A.TEST", "a.test.", "A.Test.:80"] {
        let answer = scene.ask(&get(&format!("http://{same}/")));
        assert!(answer.starts_with("HTTP/1.1 200"), "{same}: {answer}");
        assert!(sink.next().contains("\r\nHost: a.test\r\n"));
        assert_eq!(scene.record().denial, None);
    }
    let check = |host: &str, expected: Denial| {
        scene.refused(&get(&format!("http://{host}/")), expected);
        let tunnel = format!("CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n");
        scene.refused(tunnel.as_bytes(), expected);
    };
    for literal in [
        "127.0.0.1",
        "127.1",
        "0x7f.1",
        "0177.0.0.1",
        "2130706433",
        "0x7f000001",
        "127.0.0.1.",
        "[::ffff:127.0.0.1]",
        "[::1]",
        "[fe80::1%25lo]",
        "169.254.169.254",
        "1.1.1.1",
    ] {
        check(literal, Denial::IpLiteral);
    }
    check("xn--test-9cd.test", Denial::NotAllowed); // A twin in international letters.
    check("a.test.b.test", Denial::NotAllowed);
    check("xa.test", Denial::NotAllowed);
    check("\u{430}.test", Denial::Malformed);
    check("a%2etest", Denial::Malformed);
    check("b.test@a.test", Denial::Malformed);
    assert_eq!(scene.lines.dialled.lock().unwrap().len(), 3, "only the listed host");
    sink.control(&get("http://127.1/"));
    // The control of the check itself: an address is reached once it is listed.
    let scene = Scene::to(&["1.1.1.1"], &sink);
    assert!(scene.ask(&get("http://1.1.1.1/")).starts_with("HTTP/1.1 200"));
    assert!(sink.next().contains("Host: 1.1.1.1\r\n"));
}

#[test]
fn e5_a_name_for_a_private_address_is_refused() {
    let sink = Sink::http(OK);
    let scene = Scene::to(&["*.names.test"], &sink);
    let check = |answer: &[&str], expected: Option<Denial>| {
        scene.names.set("x.names.test", &[answer]);
        let request = get("http://x.names.test/");
        match expected {
            Some(denial) => scene.refused(&request, denial),
            None => {
                assert!(scene.ask(&request).starts_with("HTTP/1.1 200"), "{answer:?}");
                assert_eq!(scene.record().denial, None);
                sink.next();
            }
        }
    };
    for private in [
        "127.0.0.1",
        "10.0.0.1",
        "192.168.1.1",
        "172.16.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:1.1.1.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "fe80::1",
        "fd00::1",
        "ff02::1",
    ] {
        scene.lines.set(private, &sink);
        check(&[private], Some(Denial::PrivateAddress));
        check(&["1.1.1.1", private], Some(Denial::PrivateAddress));
        check(&[private, "1.1.1.1"], Some(Denial::PrivateAddress));
    }
    check(&[], Some(Denial::Unresolvable));
    check(&["1.1.1.9"], Some(Denial::Unreachable));
    assert!(scene.lines.dialled.lock().unwrap().iter().all(|to| to.ip().to_string() == "1.1.1.9"));
    check(&["1.1.1.1"], None);
    check(&["1.1.1.0", "1.1.1.1"], None);
}

#[test]
fn e5_the_address_that_was_checked_is_the_one_dialled() {
    let (public, private) = (Sink::http(OK), Sink::http(OK));
    let scene = Scene::to(&["a.test"], &public);
    scene.lines.set("127.0.0.1", &private);
    scene.names.set("a.test", &[&["1.1.1.1"], &["127.0.0.1"]]);
    assert!(scene.ask(&get("http://a.test/")).starts_with("HTTP/1.1 200"));
    assert_eq!(scene.names.lookups.load(Ordering::SeqCst), 1);
    assert_eq!(*scene.lines.dialled.lock().unwrap(), ["1.1.1.1:80".parse().unwrap()]);
    public.next();
    scene.record();
    // The second lookup does answer the private one, and is checked as well.
    scene.refused(&get("http://a.test/"), Denial::PrivateAddress);
    private.control(&get("http://a.test/"));
}

#[test]
fn e8_a_redirect_is_a_request_of_its_own() {
    let follow = |allowed: &[&str]| {
        let first = Sink::http(
            "HTTP/1.1 302 Found\r\nLocation: http://b.test/next\r\nContent-Length: 0\r\n\r\n",
        );
        let second = Sink::http(OK);
        let scene = Scene::to(allowed, &first);
        scene.lines.set("1.1.1.2", &second);
        let answer = scene.ask(&get("http://a.test/"));
        let (_, rest) = answer.split_once("ocation: ").unwrap();
        let next = get(rest.split("\r\n").next().unwrap());
        let answer = scene.ask(&next);
        (answer, [scene.record().denial, scene.record().denial], second, next)
    };
    let (answer, denials, second, next) = follow(&["a.test"]);
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    assert_eq!(denials, [None, Some(Denial::NotAllowed)]);
    second.control(&next);
    let (answer, denials, second, _) = follow(&["a.test", "b.test"]);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(denials, [None, None]);
    assert!(second.next().starts_with("GET /next "));
}

#[test]
fn a_second_request_on_a_connection_goes_nowhere() {
    let sink = Sink::http(OK);
    let scene = Scene::to(&["a.test"], &sink);
    let second = "GET http://b.test/secret HTTP/1.1\r\nHost: b.test\r\n\r\n";
    let check = |first: &str| {
        let both = format!("{first}{second}");
        let answer = scene.ask(both.as_bytes());
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
        let got = sink.next();
        assert!(got.contains("Host: a.test\r\n") && !got.contains("secret"), "{got}");
        assert_eq!(scene.record().denial, None);
        sink.control(both.as_bytes());
    };
    check("GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nConnection: keep-alive\r\n\r\n");
    check("POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\n\r\nx");
    check(
        "POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    );
    check(
        "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
    );
}

#[test]
fn smuggled_requests_reach_nobody() {
    let sink = Sink::http(OK);
    let scene = Scene::to(&["a.test"], &sink);
    let check = |lines: &str, body: &str| {
        let text = format!("POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n{body}");
        scene.refused(text.as_bytes(), Denial::Malformed);
        sink.control(text.as_bytes());
    };
    let inner = "0\r\n\r\nGET http://b.test/ HTTP/1.1\r\n\r\n";
    check("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", inner);
    check("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", inner);
    check("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", inner);
    check("Transfer-Encoding: identity, chunked\r\n", inner);
    check("Transfer-Encoding : chunked\r\n", inner);
    check("Content-Length: 0\r\nContent-Length: 5\r\n", "hello");
    check("X: y\r\n Content-Length: 5\r\n", "hello");
    check("X: y\nContent-Length: 5\r\n", "hello");
    check("X: y\rContent-Length: 5\r\n", "hello");
    assert!(scene.lines.dialled.lock().unwrap().is_empty());
}

#[test]
fn another_protocol_is_not_switched_to() {
    let sink = Sink::http("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nfree");
    let scene = Scene::to(&["a.test"], &sink);
    scene.refused(&get("http://a.test/"), Denial::Malformed);
    assert!(!sink.next().is_empty(), "the server was asked, and its answer refused");
}

#[test]
fn a_gate_that_fails_allows_nothing() {
    struct Broken;
    impl glasshouse_sandbox::egress::EgressGate for Broken {
        fn record(&self, _: &glasshouse_sandbox::egress::EgressRecord) {}

        fn decide(
            &self,
            _: &glasshouse_sandbox::egress::EgressRequest,
        ) -> glasshouse_sandbox::egress::EgressVerdict {
            panic!("the gate of this test fails")
        }
    }
    let sink = Sink::http(OK);
    let scene = Scene::with(&[], |egress| egress.gate = std::sync::Arc::new(Broken));
    scene.lines.set("1.1.1.1", &sink);
    let answer = scene.ask(&get("http://a.test/"));
    assert!(answer.contains("X-Glasshouse-Denial: not_allowed\r\n"), "{answer}");
    sink.control(&get("http://a.test/"));
}

#[test]
fn what_a_command_leaves_open_ends_with_it() {
    let sink = Sink::raw();
    let scene = Scene::to(&["a.test"], &sink);
    let mut open = scene.tunnel("a.test:443");
    open.write_all(&hello(Some("a.test"), &[])).unwrap();
    let mut pong = [0; 4];
    open.read_exact(&mut pong).unwrap();
    let mut half = scene.tunnel("a.test:443");
    scene.proxy.as_ref().unwrap().settle();
    // Both are recorded by now, and over.
    let mut records = [scene.record_now().unwrap(), scene.record_now().unwrap()];
    records.sort_by_key(|record| record.received_bytes);
    assert_eq!(records[0].denial, Some(Denial::Ended));
    assert_eq!((records[1].denial, records[1].received_bytes), (None, 4));
    assert_eq!((read_all(&mut open), read_all(&mut half)), (String::new(), String::new()));
    sink.next();
    // The proxy goes on.
    let again = scene.tunnel("a.test:443");
    drop(again);
    assert_eq!(scene.record().denial, Some(Denial::NotTls));
}

#[test]
fn the_end_of_the_proxy_ends_and_records_what_runs() {
    let sink = Sink::raw();
    let mut scene = Scene::to(&["a.test"], &sink);
    let mut open = scene.tunnel("a.test:443");
    open.write_all(&hello(Some("a.test"), &[])).unwrap();
    let mut pong = [0; 4];
    open.read_exact(&mut pong).unwrap();
    let mut waiting = scene.connect();
    waiting.write_all(b"GET http://a.test/ HT").unwrap();
    let (told, ended) = channel();
    let proxy = scene.proxy.take();
    std::thread::spawn(move || {
        drop(proxy);
        told.send(()).unwrap();
    });
    ended.recv_timeout(std::time::Duration::from_secs(10)).expect("the proxy did not end");
    assert_eq!(read_all(&mut open), "");
    assert_eq!(scene.record().received_bytes, 4);
    sink.next();
    drop(waiting);
}
