//! The keys of an identity provider, fetched when they are needed and kept for a while. A provider that hangs
//! holds up nobody whose key is known, and one that answers nonsense changes nothing.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, HOST};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;

use super::JwtSettings;
use crate::problem::RETRY_AFTER_S;
use crate::{Error, Result, codes};

/// How long keys are used before they are asked for again.
const FRESH_FOR: Duration = Duration::from_secs(600);
/// How long they are used when nobody answers.
const KEPT_FOR: Duration = Duration::from_secs(3_600);
/// Shortest time between two questions, whoever sends tokens with keys that nobody knows.
const ASK_EVERY: Duration = Duration::from_secs(10);
/// Longest that an answer may take, connecting included.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Largest answer, and most keys in it.
const MAX_ANSWER_BYTES: usize = 256 << 10;
const MAX_KEYS: usize = 64;
/// Path of the discovery document, below the issuer.
const DISCOVERY: &str = "/.well-known/openid-configuration";

/// The keys of one provider.
pub(super) struct KeySet {
    source: Source,
    known: RwLock<Arc<Known>>,
    /// Held while they are asked for; with the time of the last try.
    asking: Mutex<Option<Instant>>,
}

#[derive(Default)]
struct Known {
    keys: HashMap<String, Jwk>,
    fetched: Option<Instant>,
}

impl Known {
    fn is_younger(&self, than: Duration) -> bool {
        self.fetched.is_some_and(|at| at.elapsed() < than)
    }
}

struct Source {
    issuer: String,
    jwks_url: Option<String>,
    tls: TlsConnector,
}

#[derive(Deserialize)]
struct Discovered {
    issuer: String,
    jwks_uri: String,
}

#[derive(Deserialize)]
struct Answered {
    keys: Vec<serde_json::Value>,
}

impl KeySet {
    pub(super) fn new(settings: &JwtSettings) -> Result<Self, String> {
        let url = settings.jwks_url.as_ref().unwrap_or(&settings.issuer);
        Place::parse(url)?;
        let source = Source {
            issuer: settings.issuer.clone(),
            jwks_url: settings.jwks_url.clone(),
            tls: connector(settings.ca_file.as_deref())?,
        };
        Ok(Self { source, known: RwLock::default(), asking: Mutex::default() })
    }

    fn known(&self) -> Arc<Known> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The key of an id, if it may check signatures of an algorithm.
    ///
    /// # Errors
    /// `identity_unavailable` while no keys can be had.
    pub(super) async fn find(
        &self,
        kid: &str,
        algorithm: Algorithm,
    ) -> Result<Option<DecodingKey>> {
        let mut known = self.known();
        if !known.is_younger(FRESH_FOR) || !known.keys.contains_key(kid) {
            // Who has a key that is known waits for nobody while it is kept.
            if known.is_younger(KEPT_FOR) && known.keys.contains_key(kid) {
                if let Ok(last) = self.asking.try_lock() {
                    self.ask(last).await;
                }
            } else {
                self.ask(self.asking.lock().await).await;
            }
            known = self.known();
        }
        if !known.is_younger(KEPT_FOR) {
            return Err(Error::new(
                codes::IDENTITY_UNAVAILABLE,
                "the identity provider's keys cannot be had",
            )
            .with(RETRY_AFTER_S, ASK_EVERY.as_secs()));
        }
        Ok(known
            .keys
            .get(kid)
            .filter(|key| may_check(key, algorithm))
            .and_then(|key| DecodingKey::from_jwk(key).ok()))
    }

    /// Asks the provider, unless somebody just did.
    async fn ask(&self, mut last: tokio::sync::MutexGuard<'_, Option<Instant>>) {
        if last.is_some_and(|last| last.elapsed() < ASK_EVERY) {
            return;
        }
        *last = Some(Instant::now());
        if let Ok(Ok(keys)) = tokio::time::timeout(ANSWER_WITHIN, self.source.fetch()).await {
            let fresh = Known { keys, fetched: Some(Instant::now()) };
            *self.known.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(fresh);
        }
    }
}

/// A key says what it is for; one that both sides have is for nothing here.
fn may_check(key: &Jwk, algorithm: Algorithm) -> bool {
    let is_public = !matches!(key.algorithm, AlgorithmParameters::OctetKey(_));
    let is_signature =
        key.common.public_key_use.as_ref().is_none_or(|of| *of == PublicKeyUse::Signature);
    let is_its =
        key.common.key_algorithm.is_none_or(|named| named.to_string() == format!("{algorithm:?}"));
    is_public && is_signature && is_its
}

impl Source {
    async fn fetch(&self) -> Result<HashMap<String, Jwk>, String> {
        let url = match &self.jwks_url {
            Some(url) => url.clone(),
            None => {
                let at = format!("{}{DISCOVERY}", self.issuer.trim_end_matches('/'));
                let found: Discovered = self.get(&at).await?;
                if found.issuer != self.issuer {
                    return Err("the discovery document is of another issuer".to_owned());
                }
                found.jwks_uri
            }
        };
        let answered: Answered = self.get(&url).await?;
        let keys = answered.keys.into_iter().take(MAX_KEYS);
        // Keys of kinds that are not known here are passed over.
        let keys = keys.filter_map(|key| serde_json::from_value::<Jwk>(key).ok());
        let named = keys.filter_map(|key| Some((key.common.key_id.clone()?, key)));
        let keys: HashMap<_, _> = named.collect();
        if keys.is_empty() { Err("it has no keys".to_owned()) } else { Ok(keys) }
    }

    async fn get<T: serde::de::DeserializeOwned>(&self, url: &str) -> Result<T, String> {
        let place = Place::parse(url)?;
        let stream = TcpStream::connect((place.host.as_str(), place.port));
        let stream = stream.await.map_err(|e| e.to_string())?;
        let bytes = if place.is_tls {
            let name = ServerName::try_from(place.host.clone()).map_err(|e| e.to_string())?;
            let stream = self.tls.connect(name, stream).await.map_err(|e| e.to_string())?;
            exchange(stream, &place).await?
        } else {
            exchange(stream, &place).await?
        };
        serde_json::from_slice(&bytes).map_err(|e| e.to_string())
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    place: &Place,
) -> Result<Bytes, String> {
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|e| e.to_string())?;
    let serving = tokio::spawn(connection);
    let request = Request::get(&place.path)
        .header(HOST, &place.authority)
        .header(ACCEPT, "application/json")
        .body(Empty::<Bytes>::new())
        .map_err(|e| e.to_string())?;
    let got = async {
        let response = sender.send_request(request).await.map_err(|e| e.to_string())?;
        if response.status() != StatusCode::OK {
            return Err(format!("it answers {}", response.status()));
        }
        let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES);
        Ok(body.collect().await.map_err(|e| e.to_string())?.to_bytes())
    };
    let got = got.await;
    serving.abort();
    got
}

/// Where something is fetched from.
#[derive(Debug)]
struct Place {
    is_tls: bool,
    host: String,
    port: u16,
    authority: String,
    path: String,
}

impl Place {
    fn parse(url: &str) -> Result<Self, String> {
        let uri: Uri = url.parse().map_err(|_| format!("`{url}` is no address"))?;
        let host = uri.host().ok_or_else(|| format!("`{url}` names no host"))?;
        let host = host.trim_matches(['[', ']']).to_owned();
        let is_loopback = host == "localhost"
            || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            // What others could change on the way proves nothing.
            Some("http") if is_loopback => false,
            _ => return Err(format!("`{url}` is not https")),
        };
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Self { is_tls, host, port, authority, path })
    }
}

fn connector(ca_file: Option<&std::path::Path>) -> Result<TlsConnector, String> {
    let mut roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(file) = ca_file {
        let fail = |e: String| format!("cannot read `ca_file` {}: {e}", file.display());
        for certificate in CertificateDer::pem_file_iter(file).map_err(|e| fail(e.to_string()))? {
            let certificate = certificate.map_err(|e| fail(e.to_string()))?;
            roots.add(certificate).map_err(|e| fail(e.to_string()))?;
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_over_tls_or_from_this_machine() {
        let check = |url: &str, expected: Option<(&str, u16, bool, &str)>| {
            let place = Place::parse(url).ok();
            let found =
                place.as_ref().map(|it| (it.host.as_str(), it.port, it.is_tls, it.path.as_str()));
            assert_eq!(found, expected, "{url}");
        };
        check("https://id.example/keys?a=1", Some(("id.example", 443, true, "/keys?a=1")));
        check("http://127.0.0.1:4000/jwks", Some(("127.0.0.1", 4000, false, "/jwks")));
        check("http://[::1]:4000", Some(("::1", 4000, false, "/")));
        check("http://localhost/", Some(("localhost", 80, false, "/")));
        check("http://id.example/keys", None);
        check("http://10.0.0.1/keys", None);
        check("file:///etc/passwd", None);
        check("/keys", None);
    }
}
