//! Tokens of an identity provider: what a token must be, and how little a bad one or a bad provider can do.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};

use crate::client::Served;
use crate::harness::{Place, skipped};

fn base64url(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let mut whole = [0; 3];
        whole[..part.len()].copy_from_slice(part);
        let bits = u32::from_be_bytes([0, whole[0], whole[1], whole[2]]);
        for at in 0..=part.len() {
            let index = usize::try_from(bits >> (18 - 6 * at) & 63).unwrap();
            text.push(char::from(LETTERS[index]));
        }
    }
    text
}

/// A provider of this process: one key, and a count of how often it was asked.
struct Issuer {
    address: String,
    pair: EcdsaKeyPair,
    asked: Arc<AtomicUsize>,
}

impl Issuer {
    /// Answers the keys; or never, when it hangs.
    fn new(hangs: bool) -> Self {
        let random = SystemRandom::new();
        let scheme = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(scheme, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(scheme, document.as_ref(), &random).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let point = pair.public_key().as_ref().to_vec();
        let keys = json!({ "keys": [
            { "kty": "EC", "crv": "P-256", "kid": "one", "use": "sig", "alg": "ES256",
              "x": base64url(&point[1..33]), "y": base64url(&point[33..]) },
            { "kty": "oct", "kid": "shared", "k": base64url(b"both sides have this one key") },
            { "kty": "EC", "crv": "P-256", "kid": "sealed", "use": "enc",
              "x": base64url(&point[1..33]), "y": base64url(&point[33..]) },
        ] })
        .to_string();
        let asked = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&asked);
        std::thread::spawn(move || {
            let mut open = Vec::new();
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                counted.fetch_add(1, Ordering::SeqCst);
                if hangs {
                    open.push(stream);
                    continue;
                }
                let mut head = [0; 4_096];
                let _ = stream.read(&mut head);
                let length = keys.len();
                let _ = write!(
                    stream,
                    "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{keys}"
                );
            }
        });
        Self { address, pair, asked }
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let (header, claims) =
            (base64url(header.to_string().as_bytes()), base64url(claims.to_string().as_bytes()));
        let message = format!("{header}.{claims}");
        let signature = self.pair.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
        format!("{message}.{}", base64url(signature.as_ref()))
    }

    fn settings(&self, place: &Place) -> String {
        let file = place.path("server.yaml");
        let text = format!(
            "jwt:\n  issuer: https://id.example\n  audience: glasshouse\n  algorithms: [ES256]\n  jwks_url: http://{}/jwks\n",
            self.address
        );
        std::fs::write(&file, text).unwrap();
        file.display().to_string()
    }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

fn claims() -> Value {
    json!({
        "iss": "https://id.example", "aud": "glasshouse", "sub": "ada", "tenant": "acme",
        "roles": ["viewer"], "iat": now_s(), "exp": now_s() + 600,
    })
}

/// Claims with some others in the place of theirs; `null` leaves one out.
fn but(changed: &Value) -> Value {
    let mut all = claims();
    let members = all.as_object_mut().unwrap();
    for (name, value) in changed.as_object().unwrap() {
        if value.is_null() {
            drop(members.remove(name))
        } else {
            drop(members.insert(name.clone(), value.clone()))
        }
    }
    all
}

#[test]
fn only_a_token_of_the_provider_for_this_server_is_let_in() {
    let (place, issuer) = (Place::new(), Issuer::new(false));
    place.run(&["tenants", "create", "acme"]).expect_status(0);
    let served = Served::with(&place, &["--config", &issuer.settings(&place)]);
    let header = json!({ "alg": "ES256", "typ": "JWT", "kid": "one" });
    let check = |what: &str, token: &str, expected: u16| {
        let answer = served.send_as(token, "GET /v1/sessions", &[], None);
        assert_eq!(answer.status, expected, "{what}: {}", answer.text());
    };
    let good = issuer.sign(&header, &claims());
    // The control.
    check("as it should be", &good, 200);
    check(
        "several audiences",
        &issuer.sign(&header, &but(&json!({ "aud": ["a", "glasshouse"] }))),
        200,
    );
    check("within the leeway", &issuer.sign(&header, &but(&json!({ "exp": now_s() - 30 }))), 200);
    check(
        "begins within the leeway",
        &issuer.sign(&header, &but(&json!({ "nbf": now_s() + 30 }))),
        200,
    );
    let none = json!({ "alg": "none", "kid": "one" });
    let (head, body) =
        (base64url(none.to_string().as_bytes()), base64url(claims().to_string().as_bytes()));
    check("without a signature", &format!("{head}.{body}."), 401);
    check("none, with one", &issuer.sign(&none, &claims()), 401);
    // The public key as a shared one: who has it could sign.
    let confused = json!({ "alg": "HS256", "kid": "one" });
    let message = format!("{}.{body}", base64url(confused.to_string().as_bytes()));
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, issuer.pair.public_key().as_ref());
    let tag = ring::hmac::sign(&key, message.as_bytes());
    check("signed with the public key", &format!("{message}.{}", base64url(tag.as_ref())), 401);
    let shared = json!({ "alg": "HS256", "kid": "shared" });
    let message = format!("{}.{body}", base64url(shared.to_string().as_bytes()));
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"both sides have this one key");
    let tag = ring::hmac::sign(&key, message.as_bytes());
    check("signed with a shared key", &format!("{message}.{}", base64url(tag.as_ref())), 401);
    let other = |member: &str, value: &str| {
        let mut header = header.clone();
        header[member] = value.into();
        issuer.sign(&header, &claims())
    };
    check("a key that is not there", &other("kid", "two"), 401);
    check("a key for another use", &other("kid", "sealed"), 401);
    check("a path for a key", &other("kid", "../../etc/passwd"), 401);
    check("another algorithm", &other("alg", "ES384"), 401);
    check("no key named", &issuer.sign(&json!({ "alg": "ES256" }), &claims()), 401);
    let stranger = Issuer::new(false);
    check("another one's signature", &stranger.sign(&header, &claims()), 401);
    // A key that comes with the token is nobody's.
    let mut brought = header.clone();
    brought["jku"] = format!("http://{}/jwks", stranger.address).into();
    brought["jwk"] = json!({ "kty": "EC" });
    check("its own key", &stranger.sign(&brought, &claims()), 401);
    assert_eq!(stranger.asked.load(Ordering::SeqCst), 0);
    let cut = good.rsplit_once('.').unwrap().0;
    check("cut off", cut, 401);
    check(
        "changed claims",
        &good.replace(
            good.split('.').nth(1).unwrap(),
            &base64url(but(&json!({ "roles": ["admin"] })).to_string().as_bytes()),
        ),
        401,
    );
    // However many tokens name a key that is not there, keys are asked for a few times.
    assert!(issuer.asked.load(Ordering::SeqCst) <= 6, "{}", issuer.asked.load(Ordering::SeqCst));
}

/// What a token says has to be said for this server, now, and of a tenant that is there.
#[test]
fn what_a_token_says_is_looked_at_claim_by_claim() {
    let (place, issuer) = (Place::new(), Issuer::new(false));
    place.run(&["tenants", "create", "acme"]).expect_status(0);
    let served = Served::with(&place, &["--config", &issuer.settings(&place)]);
    let header = json!({ "alg": "ES256", "typ": "JWT", "kid": "one" });
    let check = |what: &str, token: &str, expected: u16| {
        let answer = served.send_as(token, "GET /v1/sessions", &[], None);
        assert_eq!(answer.status, expected, "{what}: {}", answer.text());
    };
    for (what, changed) in [
        ("expired", json!({ "exp": now_s() - 90 })),
        ("without an end", json!({ "exp": null })),
        ("an end that is a text", json!({ "exp": "never" })),
        ("not yet", json!({ "nbf": now_s() + 90 })),
        ("another audience", json!({ "aud": "other" })),
        ("no audience", json!({ "aud": null })),
        ("another issuer", json!({ "iss": "https://evil.example" })),
        ("an issuer that begins alike", json!({ "iss": "https://id.example/" })),
        ("no issuer", json!({ "iss": null })),
        ("several issuers", json!({ "iss": ["https://id.example"] })),
        ("whoever has the server's token", json!({ "sub": "local" })),
        ("a key", json!({ "sub": "k0123456789abcdef" })),
        ("no subject", json!({ "sub": null })),
        ("an odd subject", json!({ "sub": "ada\u{1b}[2J" })),
        ("a long subject", json!({ "sub": "a".repeat(129) })),
        ("no tenant", json!({ "tenant": null })),
        ("another tenant", json!({ "tenant": "nobody" })),
        ("no name of a tenant", json!({ "tenant": "../acme" })),
        ("too long", json!({ "more": "x".repeat(9_000) })),
    ] {
        check(what, &issuer.sign(&header, &but(&changed)), 401);
    }
    let roles = |roles: Value, expected: u16| {
        let token = issuer.sign(&header, &but(&json!({ "roles": roles })));
        check("roles", &token, expected);
    };
    roles(json!("operator viewer"), 200);
    roles(json!([]), 403);
    roles(json!(["king"]), 403);
    roles(json!({ "admin": true }), 403);
    roles(null(), 403);
    let admin = issuer.sign(&header, &but(&json!({ "roles": ["admin"] })));
    assert_eq!(served.send_as(&admin, "GET /v1/tenants", &[], None).status, 403);
    let who = served.send_as(&admin, "GET /v1/whoami", &[], None).expect(200).json();
    assert_eq!((&who["tenant"], &who["id"]), (&json!("acme"), &json!("ada")));
}

fn null() -> Value {
    Value::Null
}

/// A provider that takes a connection and never answers: who has another credential does not notice, and who
/// needs it hears soon.
#[test]
fn a_provider_that_hangs_holds_nobody_up() {
    let (place, issuer) = (Place::new(), Issuer::new(true));
    place.run(&["tenants", "create", "acme"]).expect_status(0);
    let served = Served::with(&place, &["--config", &issuer.settings(&place)]);
    let token = issuer.sign(&json!({ "alg": "ES256", "kid": "one" }), &claims());
    std::thread::scope(|scope| {
        let began = Instant::now();
        let waiting: Vec<_> = (0..20)
            .map(|_| scope.spawn(|| served.send_as(&token, "GET /v1/sessions", &[], None).status))
            .collect();
        std::thread::sleep(Duration::from_millis(300));
        let asked = Instant::now();
        served.get("/v1/sessions").expect(200);
        assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
        for one in waiting {
            assert_eq!(one.join().unwrap(), 503);
        }
        assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
    });
    assert_eq!(issuer.asked.load(Ordering::SeqCst), 1);
}

#[test]
fn settings_that_would_believe_anybody_are_refused() {
    let place = Place::new();
    let check = |jwt: &str, expected: &str| {
        let file = place.path("server.yaml");
        std::fs::write(&file, format!("jwt: {{ {jwt} }}\n")).unwrap();
        let file = file.display().to_string();
        let ran =
            place.run(&["serve", "--listen", "127.0.0.1:0", "--config", &file]).expect_status(2);
        assert!(
            ran.stderr.contains("[server_config_invalid]") && ran.stderr.contains(expected),
            "{jwt}: {ran:?}"
        );
    };
    check("issuer: 'https://a', audience: b, algorithms: [HS256]", "HS256");
    check("issuer: 'https://a', audience: b, algorithms: [none]", "none");
    check("issuer: 'https://a', audience: b, algorithms: []", "no algorithm");
    check("issuer: 'https://a', audience: ''", "no audience");
    check("issuer: 'https://a', audience: b, clock_skew_s: 3600", "clock_skew_s");
    check("issuer: 'http://a.example', audience: b", "not https");
    check("issuer: 'https://a', audience: b, jwks_url: 'http://10.0.0.1/k'", "not https");
    check("issuer: 'https://a', audience: b, colour: red", "colour");
    check("audience: b", "issuer");
    check("issuer: 'https://a', audience: b, tenant_claim: ''", "tenant_claim");
    check("issuer: 'https://a', audience: b, roles_claim: ''", "roles_claim");
    check("issuer: 'https://a', audience: b, roles: { dev: king }", "king");
}

/// A real provider, by its own discovery document.
#[test]
fn a_real_provider_is_believed() {
    let folder = std::env::var_os("GLASSHOUSE_TEST_OIDC").map(std::path::PathBuf::from);
    let Some(folder) = folder.filter(|folder| folder.join("node_modules").is_dir()) else {
        skipped("a_real_provider_is_believed", "oidc-provider is not installed");
        return;
    };
    let place = Place::new();
    let mut provider = Command::new("node")
        .arg(folder.join("provider.mjs"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut issuer = String::new();
    BufReader::new(provider.stdout.take().unwrap()).read_line(&mut issuer).unwrap();
    let issuer = issuer.trim().to_owned();
    place.run(&["tenants", "create", "acme"]).expect_status(0);
    let file = place.path("server.yaml");
    std::fs::write(&file, format!("jwt: {{ issuer: '{issuer}', audience: glasshouse }}\n"))
        .unwrap();
    let served = Served::with(&place, &["--config", &file.display().to_string()]);
    let token = |scope: &str| token_of(&issuer, scope);
    let status = |token: &str, line: &str| {
        let body = (!line.starts_with("GET")).then_some("{}");
        served.send_as(token, line, &[], body).status
    };
    let (viewer, operator) = (token("viewer"), token("operator"));
    assert_eq!(status(&viewer, "GET /v1/sessions"), 200);
    assert_eq!(status(&viewer, "POST /v1/sessions"), 403);
    assert_eq!(status(&operator, "POST /v1/sessions"), 400);
    assert_eq!(status(&viewer[..viewer.len() - 4], "GET /v1/sessions"), 401);
    let _ = provider.kill();
    let _ = provider.wait();
    // Its keys are kept for a while.
    assert_eq!(status(&viewer, "GET /v1/sessions"), 200);
}

fn token_of(issuer: &str, scope: &str) -> String {
    let host = issuer.trim_start_matches("http://");
    let body = format!("grant_type=client_credentials&scope={scope}");
    let mut stream = std::net::TcpStream::connect(host).unwrap();
    // `ci:not-a-secret`
    write!(
        stream,
        "POST /token HTTP/1.1\r\nhost: {host}\r\nauthorization: Basic Y2k6bm90LWEtc2VjcmV0\r\ncontent-type: application/x-www-form-urlencoded\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let json: Value =
        serde_json::from_str(&answer[answer.find('{').unwrap()..=answer.rfind('}').unwrap()])
            .unwrap();
    json["access_token"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}
