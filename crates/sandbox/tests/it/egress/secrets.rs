//! Secrets that the sandbox uses without having them.

use std::io::{Read as _, Write as _};
use std::sync::Arc;

use glasshouse_sandbox::egress::{BoundSecret, Denial};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::support::*;

const VALUE: &str = "s3cret-value-of-a";

/// A TLS server for `a.test` that answers with the head it got, and the certificate to trust.
fn tls_sink() -> (Sink, String) {
    let made = rcgen::generate_simple_self_signed(vec!["a.test".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let sink = Sink::new(move |stream| {
        let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        let mut got = Vec::new();
        let mut piece = [0; 4096];
        while !got.ends_with(b"\r\n\r\n") {
            match stream.read(&mut piece) {
                Ok(read @ 1..) => got.extend_from_slice(&piece[..read]),
                _ => return got,
            }
        }
        let head =
            format!("HTTP/1.1 200 OK\r\nX-Echo: {VALUE}\r\nContent-Length: {}\r\n\r\n", got.len());
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&got));
        stream.conn.send_close_notify();
        let _ = stream.flush();
        got
    });
    (sink, made.cert.pem())
}

fn scene(allowed: &[&str], roots_pem: Vec<String>, a: &Sink, b: &Sink) -> Scene {
    let scene = Scene::with(allowed, |egress| {
        egress.secrets = vec![BoundSecret::new("key", "a.test", 443, VALUE).unwrap()];
        egress.roots_pem = roots_pem;
    });
    scene.lines.set("1.1.1.1", a);
    scene.lines.set("1.1.1.2", b);
    scene
}

fn with_key(host: &str) -> Vec<u8> {
    format!(
        "GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer \
         glasshouse-secret:key\r\nAccept-Encoding: gzip\r\n\r\n"
    )
    .into_bytes()
}

#[test]
fn e9_a_secret_goes_to_its_host_over_tls_and_nowhere_else() {
    let (a, root) = tls_sink();
    let b = Sink::http("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let scene = scene(&["a.test", "b.test"], vec![root], &a, &b);

    // The control: at its own host it arrives.
    let answer = scene.ask(&with_key("a.test"));
    let got = a.next();
    assert!(got.contains(&format!("authorization: Bearer {VALUE}\r\n")), "{got}");
    assert!(got.contains("\r\naccept-encoding: identity\r\n") && !got.contains("gzip"), "{got}");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(!answer.contains(VALUE), "neither head nor body may bring it back: {answer}");
    assert_eq!(answer.matches(&"*".repeat(VALUE.len())).count(), 2, "{answer}");
    let record = scene.record();
    assert_eq!((record.denial, record.port), (None, 443));
    assert_eq!(scene.lines.dialled.lock().unwrap()[0].port(), 443);
    assert!(scene.gate.asked.lock().unwrap()[0].tls);

    let answer = scene.ask(&with_key("b.test"));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let got = b.next();
    assert!(got.contains("authorization: Bearer glasshouse-secret:key\r\n"), "{got}");
    assert!(!got.contains(VALUE));
    let record = scene.record();
    assert_eq!(record.denial, Some(Denial::SecretMisuse));
    assert_eq!(record.host.unwrap().to_string(), "b.test");
    assert_eq!(scene.record().denial, None);
}

#[test]
fn e9_a_server_that_cannot_prove_its_name_gets_no_secret() {
    let (a, _) = tls_sink();
    let b = Sink::raw();
    // Its certificate is nobody's.
    let scene = scene(&["a.test"], Vec::new(), &a, &b);
    scene.refused(&with_key("a.test"), Denial::Unreachable);
    assert_eq!(a.next(), "");
    // And a host that is not allowed gets nothing at all.
    let (a, root) = tls_sink();
    let scene = self::scene(&["b.test"], vec![root], &a, &b);
    scene.refused(&with_key("a.test"), Denial::NotAllowed);
    assert!(scene.lines.dialled.lock().unwrap().is_empty());
}
