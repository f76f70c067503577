//! HTTPS: whom the provider trusts.

use std::sync::Arc;

use glasshouse_provider::{Dialect, Error, Remote, Secret, codes};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::server::{http, read_request};
use crate::{ask, request};

/// Starts a server with a certificate of its own making for `name`; gives its port and the
/// certificate.
async fn start(name: &str) -> (u16, String) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let Ok(mut client) = acceptor.accept(client).await else { continue };
            if read_request(&mut client).await.is_none() {
                continue;
            }
            let body = r#"{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}"#;
            let _ = client.write_all(&http("200 OK", "", body)).await;
            let _ = client.shutdown().await;
        }
    });
    (port, cert.pem())
}

async fn ask_over_tls(host: &str, port: u16, trust: Option<&str>) -> Result<String, Error> {
    let key = Secret::new("sk-1".to_owned()).unwrap();
    let mut builder = Remote::builder(Dialect::Chat, format!("https://{host}:{port}/v1"), "m", key);
    if let Some(pem) = trust {
        builder = builder.trust_pem(pem);
    }
    let provider = builder.build().unwrap();
    ask(&provider, &request("hi")).await.0.map(|completion| completion.text)
}

#[tokio::test]
async fn only_a_trusted_certificate_for_the_right_name_is_answered_to() {
    let (port, pem) = start("localhost").await;
    let stranger = ask_over_tls("localhost", port, None).await.unwrap_err();
    assert!(stranger.is(codes::PROVIDER_UNTRUSTED), "{stranger}");
    assert!(!stranger.is_retryable());

    let (other_port, other_pem) = start("other.test").await;
    let wrong_name = ask_over_tls("localhost", other_port, Some(&other_pem)).await.unwrap_err();
    assert!(wrong_name.is(codes::PROVIDER_UNTRUSTED), "{wrong_name}");
    let wrong_root = ask_over_tls("localhost", port, Some(&other_pem)).await.unwrap_err();
    assert!(wrong_root.is(codes::PROVIDER_UNTRUSTED), "{wrong_root}");

    // The control: the same server, trusted.
    assert_eq!(ask_over_tls("localhost", port, Some(&pem)).await.unwrap(), "Hi");
}

#[tokio::test]
async fn a_server_without_tls_is_not_spoken_to_in_the_clear() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut heard = Vec::new();
        client.read_buf(&mut heard).await.unwrap();
        client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        let _ = client.read_to_end(&mut heard).await;
        String::from_utf8_lossy(&heard).into_owned()
    });
    let error = ask_over_tls("127.0.0.1", port, None).await.unwrap_err();
    assert!(error.is(codes::PROVIDER_UNREACHABLE), "{error}");
    let heard = serving.await.unwrap();
    assert!(!heard.contains("POST") && !heard.contains("sk-1"), "{heard}");
}
