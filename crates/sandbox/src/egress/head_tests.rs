use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Result<RequestHead, Denial> {
    match end_of(text.as_bytes())? {
        Some(end) => RequestHead::parse(&text.as_bytes()[..end]),
        None => panic!("not complete: {text:?}"),
    }
}

#[test]
fn requests_are_understood() {
    let check = |text: &str, method: &str, authority: (&str, u16), path: Option<&str>| {
        let head = read(text).unwrap_or_else(|denial| panic!("{text:?}: {denial}"));
        assert_eq!(head.method, method);
        assert_eq!((&*head.host.to_string(), head.port), authority, "{text:?}");
        assert_eq!(head.path(), path, "{text:?}");
    };
    check(
        "GET http://a.test/x?secret=1 HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "GET",
        ("a.test", 80),
        Some("/x"),
    );
    check("GET HTTP://A.Test. HTTP/1.1\r\nhost: a.test\r\n\r\n", "GET", ("a.test", 80), Some("/"));
    check(
        "GET http://a.test?x HTTP/1.1\r\nHost: a.test:80\r\n\r\n",
        "GET",
        ("a.test", 80),
        Some("/"),
    );
    check(
        "PUT http://a.test:81/ HTTP/1.1\r\nHost: a.test:81\r\n\r\n",
        "PUT",
        ("a.test", 81),
        Some("/"),
    );
    check("GET http://a.test/ HTTP/1.0\r\n\r\n", "GET", ("a.test", 80), Some("/"));
    check(
        "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n",
        "CONNECT",
        ("a.test", 443),
        None,
    );
    check("CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n", "CONNECT", ("a.test", 443), None);
}

/// Everything that two readers could understand differently.
#[test]
fn smuggling_and_disguise_are_refused() {
    let check = |text: &str, expected: Denial| {
        assert_eq!(read(text).err(), Some(expected), "{text:?}");
    };
    let with = |lines: &str| format!("POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n");
    use Denial::{HostMismatch, IpLiteral, Malformed, TooLarge};
    // Two lengths, or a length that is none.
    check(&with("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n"), Malformed);
    check(&with("Content-Length: 4\r\nContent-Length: 4\r\n"), Malformed);
    check(&with("Content-Length: 4, 4\r\n"), Malformed);
    check(&with("Content-Length: +4\r\n"), Malformed);
    check(&with("Content-Length: 0x4\r\n"), Malformed);
    check(&with("Content-Length:\r\n"), Malformed);
    check(&with("Content-Length: 99999999999999999999\r\n"), Malformed);
    check(&with("Transfer-Encoding: gzip, chunked\r\n"), Malformed);
    check(&with("Transfer-Encoding: xchunked\r\n"), Malformed);
    check(&with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), Malformed);
    check("POST http://a.test/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", Malformed);
    // Lines and names.
    check(&with("X: a\r\n b\r\n"), Malformed);
    check(&with("X: a\r\n\tb\r\n"), Malformed);
    check(&with("X : a\r\n"), Malformed);
    check(&with("Transfer-Encoding : chunked\r\n"), Malformed);
    check(&with(": a\r\n"), Malformed);
    check(&with("X\r\n"), Malformed);
    check(&with("X: a\nY: b\r\n"), Malformed);
    check(&with("X: a\rY: b\r\n"), Malformed);
    check(&with("X: a\0b\r\n"), Malformed);
    check(&with("X: a\x7f\r\n"), Malformed);
    check(&with("X: \x01\r\n"), Malformed);
    check(&with(&"X: a\r\n".repeat(100)), TooLarge);
    // Hosts.
    check(&with("Host: a.test\r\n"), Malformed);
    check("GET http://a.test/ HTTP/1.1\r\n\r\n", Malformed);
    check("GET http://a.test/ HTTP/1.1\r\nHost:\r\n\r\n", Malformed);
    check("GET http://a.test/ HTTP/1.1\r\nHost: b.test\r\n\r\n", HostMismatch);
    check("GET http://a.test/ HTTP/1.1\r\nHost: a.test:8080\r\n\r\n", HostMismatch);
    check("GET http://a.test:81/ HTTP/1.1\r\nHost: a.test\r\n\r\n", HostMismatch);
    check("GET http://a.test/ HTTP/1.0\r\nHost: b.test\r\n\r\n", HostMismatch);
    check("CONNECT a.test:443 HTTP/1.1\r\nHost: b.test:443\r\n\r\n", HostMismatch);
    check("GET http://2130706433/ HTTP/1.1\r\nHost: 2130706433\r\n\r\n", IpLiteral);
    check("GET http://b.test@a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", Malformed);
    check("CONNECT a.test HTTP/1.1\r\nHost: a.test\r\n\r\n", Malformed);
    check("CONNECT http://a.test:443/ HTTP/1.1\r\nHost: a.test\r\n\r\n", Malformed);
    check("CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\n\r\n", Malformed);
    // Request lines.
    check("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", Malformed);
    check("GET https://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", Malformed);
    check("GET  http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", Malformed);
    check("GET http://a.test/ HTTP/1.1 \r\nHost: a.test\r\n\r\n", Malformed);
    check("GET\thttp://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", Malformed);
    check("GET http://a.test/ HTTP/2.0\r\nHost: a.test\r\n\r\n", Malformed);
    check("GET http://a.test/ http/1.1\r\nHost: a.test\r\n\r\n", Malformed);
    check("G@T http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", Malformed);
    check("GET http://a.test/#x HTTP/1.1\r\nHost: a.test\r\n\r\n", Malformed);
    check("GET http://a.test\\@b.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", Malformed);
    check("\r\n\r\n", Malformed);
    // Paths that mean another path.
    for path in [
        "/a/../b",
        "/a/./b",
        "/..",
        "/%2e%2e/b",
        "/a/%2E./b",
        "/a%2f..%2fb",
        "/a/..%5cb",
        "/a/..;x/b",
    ] {
        check(&format!("GET http://a.test{path} HTTP/1.1\r\nHost: a.test\r\n\r\n"), Malformed);
    }
    check("GET http://a.test/%zz HTTP/1.1\r\nHost: a.test\r\n\r\n", Malformed);
    check("GET http://a.test/%0 HTTP/1.1\r\nHost: a.test\r\n\r\n", Malformed);
    check("GET http://a.test/%00 HTTP/1.1\r\nHost: a.test\r\n\r\n", Malformed);
}

#[test]
fn what_is_sent_on_is_written_anew() {
    let check = |text: &str, expected: &str| {
        let out = read(text).unwrap().rewritten();
        assert_eq!(String::from_utf8(out).unwrap(), expected, "{text:?}");
    };
    check(
        "POST http://A.test/x?q=1 HTTP/1.1\r\nHOST: A.TEST\r\nProxy-Authorization: Basic eA==\r\n\
         Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nUpgrade: websocket\r\n\
         TE: trailers\r\nExpect: 100-continue\r\nX-Kept:  v \r\nContent-Length: 003\r\n\r\n",
        "POST /x?q=1 HTTP/1.1\r\nHost: a.test\r\nx-kept: v\r\nContent-Length: 3\r\nConnection: \
         close\r\n\r\n",
    );
    check(
        "GET http://a.test:81 HTTP/1.0\r\nProxy-Connection: keep-alive\r\n\r\n",
        "GET / HTTP/1.0\r\nHost: a.test:81\r\nConnection: close\r\n\r\n",
    );
    check(
        "PUT http://a.test/ HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: Chunked\r\n\r\n",
        "PUT / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
    );
}

#[test]
fn answers_are_framed_as_their_request_asks() {
    let check = |text: &str, method: &str, expected: Result<Framing, Denial>| {
        let found = ResponseHead::parse(text.as_bytes(), method).map(|head| head.framing);
        assert_eq!(found, expected, "{method} {text:?}");
    };
    check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "GET", Ok(Framing::Length(5)));
    check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HEAD", Ok(Framing::Empty));
    check("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "GET", Ok(Framing::Empty));
    check("HTTP/1.1 200\r\n\r\n", "GET", Ok(Framing::UntilEnd));
    check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "GET", Ok(Framing::Chunked));
    check(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
        "GET",
        Err(Denial::Malformed),
    );
    check("HTTP/2 200 OK\r\n\r\n", "GET", Err(Denial::Malformed));
    check("HTTP/1.1 20 OK\r\n\r\n", "GET", Err(Denial::Malformed));
    check("HTTP/1.1 999 X\r\n\r\n", "GET", Err(Denial::Malformed));
    check("ICY 200 OK\r\n\r\n", "GET", Err(Denial::Malformed));
}

/// What a reader that gets the bytes piece by piece finds.
fn first_answer(bytes: &[u8]) -> Result<Option<usize>, Denial> {
    (0..=bytes.len())
        .map(|end| end_of(&bytes[..end]))
        .find(|found| *found != Ok(None))
        .unwrap_or(Ok(None))
}

proptest! {
    #[test]
    fn every_split_of_a_head_is_read_as_one_shot(
        text in "(G|T|:| |\r|\n|\r\n|\r\n\r\n|\0|http://a.test/|HTTP/1.1|Host: a.test){0,20}",
        noise in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        for bytes in [text.into_bytes(), noise] {
            let whole = end_of(&bytes);
            // The last byte alone may still be the first half of a line end.
            prop_assert_eq!(first_answer(&bytes), whole);
            if let Ok(Some(end)) = whole {
                let _ = RequestHead::parse(&bytes[..end]);
                let _ = ResponseHead::parse(&bytes[..end], "GET");
            }
        }
    }

    /// What is sent on is understood as what was decided on, and nothing is left to strip.
    #[test]
    fn rewriting_keeps_what_was_decided(
        path in "/[a-z%25]{0,8}", query in "(\\?[a-z=/.]{0,8})?",
        name in "X-[A-Za-z]{1,6}", value in "[!-~]{0,10}", length in 0u64..99,
    ) {
        let path = path.replace('%', "%25");
        let text = format!(
            "POST http://a.test{path}{query} HTTP/1.1\r\nHost: a.test\r\n{name}: {value}\r\n\
             Content-Length: {length}\r\n\r\n"
        );
        let head = read(&text).unwrap();
        let sent = String::from_utf8(head.rewritten()).unwrap();
        let again = read(&sent.replacen("POST ", "POST http://a.test", 1)).unwrap();
        prop_assert_eq!(&again.target, &head.target);
        prop_assert_eq!(again.framing, Framing::Length(length));
        prop_assert!(again.headers.contains(&(name.to_ascii_lowercase(), value.into_bytes())));
    }
}
