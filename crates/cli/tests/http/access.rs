//! Keys, roles and tenants: who may do what, and that nobody learns anything of anybody else.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Answer, Served};
use crate::harness::{Place, git};

const ROLES: [&str; 5] = ["viewer", "operator", "approver", "auditor", "admin"];

const TALK: &str = "version: 1
steps:
  - emit: [ { text: \"Hello.\" } ]
  - emit: [ { text: \"Again.\" } ]
  - emit: [ { text: \"Once more.\" } ]
";

/// Makes a key with the command.
pub(crate) fn key(place: &Place, tenant: &str, roles: &[&str], more: &[&str]) -> String {
    let mut arguments = vec!["keys", "create", "--json", "--tenant", tenant];
    roles.iter().for_each(|role| arguments.extend(["--role", role]));
    arguments.extend(more);
    let made = place.run(&arguments).expect_status(0).last();
    made["text"].as_str().unwrap().to_owned()
}

/// Makes a tenant with the command, and a project in a directory of its own.
pub(crate) fn tenant(place: &Place, name: &str, quotas: &[&str]) -> PathBuf {
    let root = place.path(name);
    let project = root.join("project");
    std::fs::create_dir_all(project.join("tests")).unwrap();
    std::fs::create_dir_all(project.join(".glasshouse")).unwrap();
    std::fs::write(project.join("ask1.txt"), "secret\n").unwrap();
    std::fs::write(project.join("tests/run.sh"), "exit 0\n").unwrap();
    std::fs::write(
        project.join(".glasshouse/config.yaml"),
        "test: { command: [sh, tests/run.sh], globs: [\"tests/**\"] }\nsource: { globs: [\"src/**\"] }\n",
    )
    .unwrap();
    git(&project, &["init", "-q", "-b", "main"]);
    git(&project, &["add", "-A"]);
    git(&project, &["commit", "-q", "-m", "first"]);
    let root = root.display().to_string();
    let mut arguments = vec!["tenants", "create", name, "--root", &root, "--json"];
    quotas.iter().for_each(|quota| arguments.extend(["--quota", quota]));
    place.run(&arguments).expect_status(0);
    project
}

/// A client with a key of its own.
pub(crate) struct As<'a> {
    pub(crate) served: &'a Served,
    pub(crate) key: String,
}

impl As<'_> {
    pub(crate) fn send(&self, line: &str, body: Option<&Value>) -> Answer {
        self.keyed(line, &[], body)
    }

    pub(crate) fn keyed(
        &self,
        line: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Answer {
        let body = body.map(Value::to_string);
        self.served.send_as(&self.key, line, headers, body.as_deref())
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send(&format!("GET {path}"), None)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(&format!("POST {path}"), Some(body))
    }

    pub(crate) fn session(&self, project: &std::path::Path, scenario: &str) -> String {
        let body = json!({ "project": project, "provider": "scripted", "scenario": scenario });
        self.post("/v1/sessions", &body).expect(201).json()["session"].as_str().unwrap().to_owned()
    }

    /// Starts a turn and waits for an event of a kind.
    pub(crate) fn turn(&self, session: &str, message: &str, until: &str) -> Vec<Value> {
        let turns = format!("/v1/sessions/{session}/turns");
        self.post(&turns, &json!({ "message": message })).expect(202);
        let path = format!("/v1/sessions/{session}/events/stream");
        let frames = self.served.follow_as(&self.key, &path).until(until);
        frames.into_iter().map(|frame| frame.data).collect()
    }
}

#[test]
fn a_key_is_shown_once_and_counts_until_it_ends() {
    let place = Place::new();
    let served = Served::new(&place);
    let listed = || served.get("/v1/keys").expect(200).json();
    let status = |key: &str| served.send_as(key, "GET /v1/sessions", &[], None).status;
    let text = key(&place, "local", &["viewer"], &["--name", "ci", "--expires", "90d"]);
    let id = text.split('.').nth(2).unwrap().to_owned();
    let secret = text.rsplit('.').next().unwrap().to_owned();
    assert_eq!(status(&text), 200);
    for wrong in [
        text.replace(&secret, &"0".repeat(64)),
        text.replace(".local.", ".other."),
        text.replace(&id, "k0000000000000000"),
        format!("{text}0"),
        text[..text.len() - 1].to_owned(),
        secret.clone(),
    ] {
        assert_eq!(status(&wrong), 401, "{wrong}");
    }
    let view = &listed()["keys"][0];
    assert_eq!((&view["name"], &view["is_live"]), (&json!("ci"), &json!(true)));
    assert!(!listed().to_string().contains(&secret) && view["text"].is_null());
    assert!(!place.run(&["keys", "list", "--json"]).stdout.contains(&secret));
    // Rotated with some grace both are good, without it the old one ends at once.
    let rotate = |id: &str, body: Value| {
        let made = served.post(&format!("/v1/keys/{id}/rotate"), &body).expect(201).json();
        (made["key"].as_str().unwrap().to_owned(), made["text"].as_str().unwrap().to_owned())
    };
    let (second, newer) = rotate(&id, json!({ "grace_s": 600 }));
    assert_eq!((status(&text), status(&newer)), (200, 200));
    let (third, newest) = rotate(&second, json!({}));
    assert_eq!((status(&newer), status(&newest)), (401, 200));
    assert_eq!(served.post(&format!("/v1/keys/{second}/rotate"), &json!({})).status, 404);
    // Taken back by another process it is refused from the next request on.
    place.run(&["keys", "revoke", &third]).expect_status(0);
    assert_eq!(status(&newest), 401);
    let again = served.send(&format!("DELETE /v1/keys/{third}"), &[], None).expect(200);
    assert_eq!(again.json()["changed"], false);
    assert_eq!(
        served.send("DELETE /v1/keys/nothing", &[], None).expect(404).code(),
        "key_not_found"
    );
    // One that is over by itself.
    let brief = key(&place, "local", &["viewer"], &["--expires", "1500ms"]);
    assert_eq!(status(&brief), 200);
    std::thread::sleep(Duration::from_millis(1_600));
    assert_eq!(status(&brief), 401);
    for body in [
        json!({ "roles": [] }),
        json!({ "roles": ["king"] }),
        json!({ "roles": ["viewer"], "lifetime_s": 0 }),
        json!({ "roles": ["viewer"], "name": "a\u{1b}[0m" }),
    ] {
        assert_eq!(served.post("/v1/keys", &body).expect(422).code(), "key_invalid", "{body}");
    }
    // No secret is in the log, which tells of every key.
    let log = served.get("/v1/sessions/s_access/events?limit=1000").expect(200).text();
    assert!(log.contains("key.created") && log.contains("key.revoked") && !log.contains(&secret));
    place.run(&["audit", "verify"]).expect_status(0);
}

/// The table for people is the one that the server uses: every route with every role.
#[test]
fn every_role_opens_the_routes_of_the_table_and_no_other() {
    let place = Place::new();
    tenant(&place, "acme", &[]);
    let served = Served::new(&place);
    let file =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/http-api.md");
    let text = std::fs::read_to_string(file).unwrap();
    let rows: Vec<(String, String)> = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .map(|line| {
            let (route, rest) = line.split_once("` | ").unwrap();
            (route.to_owned(), rest.split(" | ").next().unwrap().to_owned())
        })
        .collect();
    assert!(rows.len() > 50, "{}", rows.len());
    let mut checked = 0;
    for role in ROLES {
        let of_acme = As { served: &served, key: key(&place, "acme", &[role], &[]) };
        let of_house = As { served: &served, key: key(&place, "local", &[role], &[]) };
        for (route, who) in &rows {
            let line = route
                .replace("{session}", "s_nothere00000")
                .replace("{branch}", "b_nothere00000")
                .replace("{turn}", "1")
                .replace("{seq}", "1")
                .replace("{approval}", "b_nothere00000:1")
                .replace("{grant}", "g_000102030405060708090a0b0c0d0e0f")
                .replace("{digest}", &format!("sha256:{}", "0".repeat(64)))
                .replace("{plan}", "nothing")
                .replace("{view}", "manifest")
                .replace("{run}", "1")
                .replace("{sandbox}", "nothing")
                .replace("{key}", "nothing")
                .replace("{tenant}", "nothing");
            assert!(!line.contains('{'), "{line}");
            let body = (!line.starts_with("GET")).then(|| json!({}));
            let words: Vec<&str> = who.split(", ").collect();
            let is_host = words == ["admin of the tenant local"];
            for (client, is_house) in [(&of_acme, false), (&of_house, true)] {
                let expected = words.contains(&"anybody")
                    || words.contains(&role)
                    || (is_host && is_house && role == "admin");
                let answer = client.send(&line, body.as_ref());
                let found = answer.code() != "role_forbidden";
                assert_eq!(found, expected, "{role} {line} {is_house}: {}", answer.text());
                assert_eq!(answer.status == 403 && !found, !found);
                assert!(answer.status < 500, "{role} {line}: {}", answer.text());
                checked += 1;
            }
        }
    }
    assert_eq!(checked, rows.len() * ROLES.len() * 2);
}

/// Each id of a tenant beside one that nobody has.
struct Theirs {
    session: String,
    branch: String,
    blob: String,
    key: String,
}

impl Theirs {
    /// The same text about nobody.
    fn unknown(&self, text: &str) -> String {
        let ids = [
            (self.session.as_str(), "s_zzzzzzzzzzzz"),
            (self.branch.as_str(), "b_zzzzzzzzzzzz"),
            (
                self.blob.as_str(),
                "sha256:ababababababababababababababababababababababababababababababab00",
            ),
            ("xylophone", "harmonium"),
            (self.key.as_str(), "kabcdefabcdefabcd"),
        ];
        ids.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    }

    /// A request on every route that names something.
    fn lines(&self) -> Vec<(String, Option<Value>)> {
        let Self { session: s, branch: b, blob, key: their_key } = self;
        vec![
            (format!("GET /v1/sessions/{s}"), None),
            (format!("GET /v1/sessions/{s}/events"), None),
            (format!("GET /v1/sessions/{s}/events?branch={b}"), None),
            (format!("GET /v1/sessions/{s}/events/stream"), None),
            (format!("GET /v1/sessions/{s}/events/2/explanation"), None),
            (format!("GET /v1/sessions/{s}/branches"), None),
            (format!("GET /v1/sessions/{s}/diff"), None),
            (format!("GET /v1/sessions/{s}/costs"), None),
            (format!("DELETE /v1/sessions/{s}"), None),
            (format!("POST /v1/sessions/{s}/close"), Some(json!({}))),
            (format!("POST /v1/sessions/{s}/turns"), Some(json!({ "message": "hello" }))),
            (format!("POST /v1/sessions/{s}/turns/2/steer"), Some(json!({ "message": "hello" }))),
            (format!("POST /v1/sessions/{s}/turns/2/cancel"), Some(json!({}))),
            (format!("POST /v1/sessions/{s}/branches"), Some(json!({ "name": "mine" }))),
            (format!("POST /v1/sessions/{s}/branches/{b}/merge"), Some(json!({}))),
            (format!("POST /v1/sessions/{s}/replay"), Some(json!({}))),
            (
                "POST /v1/policy/simulate".to_owned(),
                Some(json!({ "policy": "version: 1\ncapabilities: []\n", "session": s })),
            ),
            (format!("GET /v1/sandboxes?session={s}"), None),
            (format!("GET /v1/approvals/{b}:3"), None),
            (
                format!("POST /v1/approvals/{b}:3"),
                Some(json!({ "approved": true, "digest": blob })),
            ),
            (format!("GET /v1/blobs/{blob}"), None),
            (format!("GET /v1/audit/proofs/{b}/1"), None),
            ("GET /v1/plans/xylophone/state".to_owned(), None),
            ("POST /v1/plans/xylophone/events".to_owned(), Some(json!({ "event": "add" }))),
            ("POST /v1/plans/xylophone/rollback".to_owned(), Some(json!({ "version": 1 }))),
            (format!("POST /v1/keys/{their_key}/rotate"), Some(json!({}))),
            (format!("DELETE /v1/keys/{their_key}"), None),
        ]
    }
}

/// Two tenants with the same things: whatever one asks for of the other answers as what nobody has.
#[test]
fn j4_what_is_another_tenants_answers_as_what_is_not_there() {
    let place = Place::new();
    let (mine, theirs) = (tenant(&place, "mine", &[]), tenant(&place, "theirs", &[]));
    let served = Served::new(&place);
    let me = As { served: &served, key: key(&place, "mine", &["admin"], &[]) };
    let they = As { served: &served, key: key(&place, "theirs", &["admin"], &[]) };
    let session = they.session(&theirs, TALK);
    let events = they.turn(&session, "the word is xylophone", "turn.completed");
    let branch = events[0]["branch"].as_str().unwrap();
    let of = events.iter().find(|event| event["kind"] == "model.completed").unwrap();
    let blob = of["body"]["raw"]["blob"].as_str().unwrap();
    let plan = json!({
        "specVersion": "runtime-plan/v1", "id": "xylophone", "version": 1,
        "root": {"type": "element", "tag": "p", "children": [{"type": "text", "value": "xylophone"}]},
    });
    they.post("/v1/plans", &json!({ "plan": plan.to_string() })).expect(201);
    let made = they.post("/v1/keys", &json!({ "roles": ["viewer"] })).expect(201).json();
    let their_key = made["key"].as_str().unwrap();
    me.session(&mine, TALK);
    let ids = Theirs {
        session: session.clone(),
        branch: branch.to_owned(),
        blob: blob.to_owned(),
        key: their_key.to_owned(),
    };
    let unknown = |text: &str| ids.unknown(text);
    // First: what one asks for is told to oneself.
    lists_are_their_readers_alone(&me, &they, &ids);
    for (line, body) in &ids.lines() {
        let answer = me.send(line, body.as_ref());
        let nobody =
            body.as_ref().map(|body| serde_json::from_str(&unknown(&body.to_string())).unwrap());
        let nothing = me.send(&unknown(line), nobody.as_ref());
        assert_eq!(answer.status, nothing.status, "{line}: {}", answer.text());
        assert_eq!(unknown(&answer.text()), nothing.text(), "{line}");
        let without = |answer: &Answer| {
            let mut headers = answer.headers.clone();
            headers.retain(|(name, _)| name != "date" && name != "content-length");
            headers
        };
        assert_eq!(without(&answer), without(&nothing), "{line}");
        // The control: its owner gets another answer, unless it is one that nobody gets.
        assert!(answer.status >= 400, "{line}: {}", answer.text());
    }
    assert_eq!(they.get(&format!("/v1/sessions/{session}")).status, 200);
    assert_eq!(they.get(&format!("/v1/blobs/{blob}")).status, 200);
    // One name of a request in two tenants is two requests.
    let start = |client: &As<'_>, project: &PathBuf| {
        let body = json!({ "project": project, "provider": "scripted", "scenario": TALK });
        let key = [("idempotency-key", "same")];
        client.keyed("POST /v1/sessions", &key, Some(&body)).expect(201)
    };
    for answer in [start(&me, &mine), start(&they, &theirs)] {
        assert_eq!(answer.header("idempotency-replayed"), None);
    }
}

fn lists_are_their_readers_alone(me: &As<'_>, they: &As<'_>, ids: &Theirs) {
    let Theirs { session, branch, blob, key } = ids;
    for path in [
        "/v1/sessions",
        "/v1/approvals",
        "/v1/grants?all=true",
        "/v1/plans",
        "/v1/keys",
        "/v1/usage",
        "/v1/sandboxes",
        "/v1/audit/checkpoint",
        "/v1/whoami",
    ] {
        let answer = me.get(path).expect(200).text();
        for secret in [session.as_str(), branch, blob, "xylophone", "theirs", key] {
            assert!(!answer.contains(secret), "{path} tells {secret}: {answer}");
        }
    }
    let mut owners = they.get("/v1/sessions").json();
    assert!(
        owners["sessions"].as_array_mut().unwrap().iter().any(|row| row["session"] == *session)
    );
    // A cursor of another tenant is a place in one's own list.
    let row = &owners["sessions"][0];
    let cursor = format!("{}.{}", row["created_us"], row["session"].as_str().unwrap());
    let page = me.get(&format!("/v1/sessions?cursor={cursor}")).expect(200).text();
    assert!(!page.contains(session.as_str()), "{page}");
}

/// Random ids of each shape, and another tenant's ones with a letter changed: never a fault, never a hit.
#[test]
fn ids_that_are_guessed_hit_nothing() {
    let place = Place::new();
    let theirs = tenant(&place, "theirs", &[]);
    tenant(&place, "mine", &[]);
    let served = Served::new(&place);
    let me = As { served: &served, key: key(&place, "mine", &["admin"], &[]) };
    let they = As { served: &served, key: key(&place, "theirs", &["admin"], &[]) };
    let session = they.session(&theirs, TALK);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |most: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap() % most
    };
    let letters = b"abcdefghjkmnpqrstvwxyz0123456789_-.:%/~\\";
    for round in 0..300 {
        let id: String = if round % 3 == 0 {
            let mut bytes = session.clone().into_bytes();
            let at = 2 + random(bytes.len() - 2);
            bytes[at] = letters[random(32)];
            String::from_utf8(bytes).unwrap()
        } else {
            let length = 1 + random(80);
            (0..length).map(|_| char::from(letters[random(letters.len())])).collect()
        };
        for line in [
            format!("GET /v1/sessions/{id}"),
            format!("GET /v1/sessions/{id}/events"),
            format!("GET /v1/blobs/{id}"),
            format!("GET /v1/approvals/{id}"),
            format!("DELETE /v1/keys/{id}"),
            format!("GET /v1/plans/{id}/state"),
        ] {
            let answer = me.send(&line, None);
            assert!((400..500).contains(&answer.status), "{line}: {}", answer.text());
        }
    }
}

/// Asks a person about each read of `ask*.txt`.
const ASKED: &str = "  - { name: ask-reads, match: { syscall: fs.read, path_glob: 'ask*.txt' }, action: require_review, reason: ask first }\n";
const QUESTION: &str = "version: 1
steps:
  - emit: [ { call: { id: a, tool: fs.read, args: { path: ask1.txt } } } ]
  - emit: [ { text: done } ]
";

/// F8, J5: only a person of the tenant with the right to answer does; who tries without is told of in their own
/// tenant's log.
#[test]
fn f8_only_a_person_of_the_tenant_answers() {
    let place = Place::new();
    let acme = tenant(&place, "acme", &[]);
    tenant(&place, "other", &[]);
    let served = Served::new(&place);
    let of = |tenant: &str, roles: &[&str], more: &[&str]| As {
        served: &served,
        key: key(&place, tenant, roles, more),
    };
    let admin = of("acme", &["admin"], &[]);
    let shipped = place.run(&["policy", "show", "--shipped"]).expect_status(0).stdout;
    let policy = format!("{}\n{ASKED}", shipped.trim_end());
    let proposal = json!({ "project": acme, "policy": policy });
    let digest = admin.post("/v1/policy/propose", &proposal).expect(200).json()["digest"].clone();
    let approval = json!({ "project": acme, "policy": policy, "digest": digest });
    // Not by an operator, nor by an agent with an admin's key.
    for (roles, more) in [(["operator"], &[][..]), (["admin"], &["--agent"][..])] {
        let refused = of("acme", &roles, more).post("/v1/policy/approve", &approval).expect(403);
        assert_eq!(refused.code(), "role_forbidden");
    }
    admin.post("/v1/policy/approve", &approval).expect(200);
    let session = admin.session(&acme, QUESTION);
    admin.turn(&session, "read it", "approval.requested");
    let asked = admin.get("/v1/approvals").expect(200).json()["approvals"][0].clone();
    let path = format!("/v1/approvals/{}", asked["approval"].as_str().unwrap());
    let yes = json!({ "approved": true, "digest": asked["args_digest"] });
    let check = |client: &As<'_>, status: u16, code: &str| {
        let answer = client.post(&path, &yes);
        assert_eq!((answer.status, answer.code()), (status, code.to_owned()), "{}", answer.text());
    };
    let viewer = of("acme", &["viewer"], &[]);
    check(&viewer, 403, "role_forbidden");
    check(&of("acme", &["operator"], &[]), 403, "role_forbidden");
    check(&of("acme", &["approver"], &["--agent"]), 403, "role_forbidden");
    let stranger = of("other", &["admin"], &[]);
    check(&stranger, 404, "approval_unknown");
    assert_eq!(admin.get(&path).expect(200).json()["answered"], false);
    let denied = |client: &As<'_>| {
        let log = client.get("/v1/sessions/s_access/events?limit=1000").json();
        let events = log["events"].as_array().unwrap().clone().into_iter();
        events.filter(|event| event["kind"] == "policy.decided").count()
    };
    assert!(denied(&admin) >= 3, "{}", denied(&admin));
    let foreign = stranger.get("/v1/sessions/s_access/events").json().to_string();
    assert!(!foreign.contains("acme") && !foreign.contains(&session), "{foreign}");
    // The control: somebody who may.
    check(&of("acme", &["approver"], &[]), 200, "");
    let path = format!("/v1/sessions/{session}/events/stream");
    served.follow_as(&admin.key, &path).until("turn.completed");
}

/// A stream that is open ends when its key is taken back, and when its tenant is disabled.
#[test]
fn a_stream_ends_with_the_right_to_it() {
    let place = Place::new();
    let acme = tenant(&place, "acme", &[]);
    let served = Served::new(&place);
    let admin = As { served: &served, key: key(&place, "acme", &["admin"], &[]) };
    let session = admin.session(&acme, TALK);
    let path = format!("/v1/sessions/{session}/events/stream");
    let open = || {
        let reader = key(&place, "acme", &["viewer"], &[]);
        let mut stream = served.follow_as(&reader, &path);
        assert!(stream.next().is_some());
        (reader.split('.').nth(2).unwrap().to_owned(), stream)
    };
    let ends = |mut stream: crate::client::Stream| {
        let began = Instant::now();
        while stream.next().is_some() {}
        assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
    };
    let (id, stream) = open();
    let (_, kept) = open();
    place.run(&["keys", "revoke", &id, "--tenant", "acme"]).expect_status(0);
    ends(stream);
    // The control: the other one goes on, until nobody of the tenant may ask.
    admin.turn(&session, "hello", "turn.completed");
    place.run(&["tenants", "disable", "acme"]).expect_status(0);
    ends(kept);
    assert_eq!(admin.get("/v1/sessions").status, 401);
    let roots = acme.parent().unwrap().display().to_string();
    place.run(&["tenants", "update", "acme", "--root", &roots]).expect_status(0);
    assert_eq!(admin.get("/v1/sessions").status, 200);
}

#[test]
fn a_quota_that_is_used_up_answers_when_to_come_again() {
    let place = Place::new();
    let acme = tenant(&place, "acme", &["turns_per_day=2"]);
    let root = acme.parent().unwrap().display().to_string();
    let mut served = Served::new(&place);
    let secret = key(&place, "acme", &["admin"], &[]);
    let session = {
        let admin = As { served: &served, key: secret.clone() };
        let session = admin.session(&acme, TALK);
        admin.turn(&session, "one", "turn.completed");
        session
    };
    // Counts are of the log: another process goes on with them.
    served.kill();
    let served = Served::new(&place);
    let admin = As { served: &served, key: secret };
    let turns = format!("/v1/sessions/{session}/turns");
    let start = || loop {
        let answer = admin.post(&turns, &json!({ "message": "more" }));
        if answer.code() != "turn_running" {
            return answer;
        }
    };
    start().expect(202);
    let refused = |quota: &str| {
        let answer = start().expect(429);
        assert_eq!(
            (answer.code().as_str(), &answer.json()["context"]["quota"]),
            ("quota_exhausted", &json!(quota))
        );
        let wait: u64 = answer.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=24 * 3_600).contains(&wait), "{wait}");
    };
    refused("turns_per_day");
    refused("turns_per_day");
    let told = admin.get("/v1/sessions/s_access/events?limit=1000").json();
    let told = told["events"].as_array().unwrap().clone().into_iter();
    assert_eq!(told.filter(|event| event["kind"] == "quota.throttled").count(), 1);
    let allow = |quota: &str| {
        place
            .run(&["tenants", "update", "acme", "--root", &root, "--quota", quota])
            .expect_status(0);
    };
    allow("tokens_per_day=0");
    refused("tokens_per_day");
    allow("stored_bytes=1");
    refused("stored_bytes");
    allow("running_turns=0");
    refused("running_turns");
    // The control: with room it goes on.
    allow("running_turns=5");
    start().expect(202);
    allow("requests_per_minute=10");
    let limited =
        (0..20).map(|_| admin.get("/v1/sessions")).find(|answer| answer.status == 429).unwrap();
    assert_eq!(limited.code(), "too_many_requests");
    let wait: u64 = limited.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    // Nobody else waits for it.
    served.get("/v1/sessions").expect(200);
}

/// What a tenant names on the host: its own directories, and nothing that tells of any other.
#[test]
fn a_tenant_names_only_its_own_directories_and_no_server_for_our_keys() {
    let place = Place::new();
    let (acme, other) = (tenant(&place, "acme", &[]), tenant(&place, "other", &[]));
    std::os::unix::fs::symlink(&other, acme.parent().unwrap().join("link")).unwrap();
    let served = Served::new(&place);
    let admin = As { served: &served, key: key(&place, "acme", &["admin"], &[]) };
    let root = acme.parent().unwrap();
    let start = |project: &std::path::Path, more: Value| {
        let mut body = json!({ "project": project, "provider": "scripted", "scenario": TALK });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        admin.post("/v1/sessions", &body)
    };
    start(&acme, json!({})).expect(201);
    let refusals: Vec<String> = [
        other.clone(),
        place.path("nothing"),
        "/etc".into(),
        "/nothing/at/all".into(),
        root.join("../other/project"),
        root.join("link"),
        place.home(),
    ]
    .iter()
    .map(|project| {
        let answer = start(project, json!({})).expect(403);
        assert_eq!(answer.code(), "tenant_restricted", "{}", project.display());
        answer.text()
    })
    .collect();
    assert!(refusals.iter().all(|text| *text == refusals[0]), "{refusals:?}");
    let shown = admin.get("/v1/policy?project=/etc").expect(403);
    assert_eq!(shown.code(), "tenant_restricted");
    let elsewhere = start(&acme, json!({ "base_url": "http://127.0.0.1:9/v1" })).expect(403);
    assert_eq!(elsewhere.code(), "tenant_restricted");
    // A profile that the tenant's forbids.
    let roots = root.display().to_string();
    place
        .run(&["tenants", "update", "acme", "--root", &roots, "--profile", "balanced"])
        .expect_status(0);
    let plan = json!({
        "specVersion": "runtime-plan/v1", "id": "one", "version": 1,
        "root": {"type": "element", "tag": "p", "children": [{"type": "text", "value": "one"}]},
    });
    let show = |profile: &str| {
        let body = json!({ "plan": plan.to_string(), "profile": profile });
        admin.post("/v1/plans", &body)
    };
    show("balanced").expect(201);
    assert_eq!(show("relaxed").expect(403).code(), "tenant_restricted");
    for arguments in [
        ["tenants", "create", "bad", "--quota", "turns=1"],
        ["tenants", "create", "bad", "--profile", "none"],
        ["tenants", "create", "bad", "--root", "relative"],
        ["tenants", "create", "acme", "--quota", "turns_per_day=1"],
        ["tenants", "create", "local", "--quota", "turns_per_day=1"],
    ] {
        let ran = place.run(&arguments);
        assert!(matches!(ran.status, Some(2 | 8)), "{arguments:?} {ran:?}");
    }
    let home = place.home().display().to_string();
    place.run(&["tenants", "create", "bad", "--root", &home]).expect_status(2);
}
