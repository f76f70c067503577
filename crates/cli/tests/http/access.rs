//! Keys, roles and tenants: who may do what, and that nobody learns anything of anybody else.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Served;
use crate::harness::Place;
use crate::world::{As, key, tenant};

const ROLES: [&str; 5] = ["viewer", "operator", "approver", "auditor", "admin"];

const TALK: &str = "version: 1
steps:
  - emit: [ { text: \"Hello.\" } ]
  - emit: [ { text: \"Again.\" } ]
  - emit: [ { text: \"Once more.\" } ]
";

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
    let again = served.post(&format!("/v1/keys/{id}/rotate"), &json!({ "grace_s": 600 }));
    assert_eq!(again.expect(404).code(), "key_not_found", "it has one in its place already");
    let (third, newest) = rotate(&second, json!({}));
    assert_eq!((status(&newer), status(&newest)), (401, 200));
    assert_eq!(served.post(&format!("/v1/keys/{second}/rotate"), &json!({})).status, 404);
    // Taken back by another process it is refused from the next request on.
    // By its whole text too, which is what somebody finds; no message says that text again.
    place.run(&["keys", "revoke", &newest]).expect_status(0);
    assert_eq!(status(&newest), 401);
    let stray = place.run(&["keys", "revoke", &newest.replace(&third, "k0000000000000000")]);
    let shown = newest.rsplit('.').next().unwrap();
    assert!(stray.status != Some(0) && !stray.stderr.contains(shown), "{stray:?}");
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

/// Every path below a directory; what is not there has none.
fn paths(directory: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<String> = entries
        .flat_map(|entry| {
            let path = entry.path();
            let below = if path.is_dir() { paths(&path) } else { Vec::new() };
            below.into_iter().chain([path.display().to_string()])
        })
        .collect();
    found.sort();
    found
}

/// The failure: a tenant's log was opened, and made where there was none, before the key that was sent was looked at, so
/// who knew a tenant's name made directories and threads with keys of their own invention.
#[test]
fn a_key_that_proves_nothing_makes_nothing() {
    let place = Place::new();
    tenant(&place, "acme", &[]);
    tenant(&place, "empty", &[]);
    let good = key(&place, "acme", &["viewer"], &[]);
    let served = Served::new(&place);
    let made = || paths(&place.home().join("tenants"));
    let before = made();
    let status = |key: &str| served.send_as(key, "GET /v1/whoami", &[], None).status;
    let secret = good.rsplit('.').next().unwrap();
    for (tenant, secret) in
        [("acme", "0".repeat(64)), ("empty", secret.to_owned()), ("nobody", secret.to_owned())]
    {
        let id = good.split('.').nth(2).unwrap();
        assert_eq!(status(&format!("glasshouse_key.{tenant}.{id}.{secret}")), 401, "{tenant}");
    }
    assert_eq!(made(), before);
    // The control: what is proved opens a tenant, and whoever may makes one's log.
    assert_eq!(status(&good), 200);
    served.post("/v1/tenants/empty/keys", &json!({ "roles": ["viewer"] })).expect(201);
    assert_ne!(made(), before);
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

/// The failure: of two who wrote a tenant's terms at a time the last one won, and undid what the first had written.
/// Now who says what they knew is refused once it is so no more, and writes again on what is.
#[test]
fn of_two_who_write_a_tenant_the_second_is_told() {
    let place = Place::new();
    tenant(&place, "acme", &["turns_per_day=7"]);
    let served = Served::new(&place);
    let tag = |answer: &crate::client::Answer| answer.header("etag").unwrap().to_owned();
    let read = || served.get("/v1/tenants/acme").expect(200);
    let write = |tag: &str, turns: u64| {
        let body = json!({ "quotas": { "turns_per_day": turns } }).to_string();
        served.send("PUT /v1/tenants/acme", &[("if-match", tag)], Some(&body))
    };
    let known = tag(&read());
    let first = write(&known, 8).expect(200);
    // One of another alphabet is a condition, too: what cannot be read was once taken for none.
    for tag in [known.as_str(), "\"st\u{e4}le\"", ""] {
        assert_eq!(write(tag, 9).expect(412).code(), "precondition_failed", "{tag}");
    }
    assert_eq!(read().json()["quotas"]["turns_per_day"], 8);
    // What a change answers is what the next one goes on from.
    let after = tag(&read());
    assert_eq!(tag(&first), after);
    write(&after, 9).expect(200);
    assert_eq!(read().json()["quotas"]["turns_per_day"], 9);
    let same = served.send("GET /v1/tenants/acme", &[("if-none-match", &tag(&read()))], None);
    assert_eq!(same.status, 304);
    assert_eq!(served.get("/v1/tenants/nobody").expect(404).code(), "tenant_not_found");
}

/// The failure: a tenant one of whose directories was gone could not be disabled, since such terms are refused.
#[test]
fn a_tenant_whose_directory_is_gone_can_be_disabled() {
    let place = Place::new();
    let served = Served::new(&place);
    for by_command in [true, false] {
        let name = if by_command { "acme" } else { "other" };
        tenant(&place, name, &[]);
        let text = key(&place, name, &["viewer"], &[]);
        let status = || served.send_as(&text, "GET /v1/whoami", &[], None).status;
        assert_eq!(status(), 200, "the control");
        std::fs::remove_dir_all(place.path(name)).unwrap();
        if by_command {
            place.run(&["tenants", "disable", name]).expect_status(0);
        } else {
            served.send(&format!("DELETE /v1/tenants/{name}"), &[], None).expect(200);
        }
        assert_eq!(status(), 401, "{name}");
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
        // Whoever has the role is told what it is that they lack.
        let is_told = refused.text().contains("this is a key of an agent");
        assert_eq!(is_told, !more.is_empty(), "{}", refused.text());
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

/// A try that is refused is told of in the log of who tried, and in no other.
#[test]
fn j5_a_try_that_was_denied_is_in_the_log_of_who_tried_alone() {
    let place = Place::new();
    let acme = tenant(&place, "acme", &[]);
    tenant(&place, "other", &[]);
    let served = Served::new(&place);
    let of =
        |tenant: &str, role: &str| As { served: &served, key: key(&place, tenant, &[role], &[]) };
    let (owner, stranger, admin) =
        (of("acme", "admin"), of("other", "viewer"), of("other", "admin"));
    let session = owner.session(&acme, TALK);
    let denials = |client: &As<'_>| {
        let log = client.get("/v1/sessions/s_access/events?limit=1000").json();
        let events = log["events"].as_array().unwrap().clone();
        events
            .iter()
            .filter(|event| event["kind"] == "policy.decided")
            .map(Value::to_string)
            .collect::<Vec<_>>()
    };
    let before = denials(&owner);
    let close = format!("/v1/sessions/{session}/close");
    assert_eq!(stranger.post(&close, &json!({})).expect(403).code(), "role_forbidden");
    assert_eq!(admin.post(&close, &json!({})).expect(404).code(), "session_not_found");
    assert_eq!(denials(&owner), before);
    let told = denials(&admin);
    assert_eq!(told.len(), 1, "{told:?}");
    // It says which route, not whose session: that is not the caller's to know.
    assert!(told[0].contains("/close") && !told[0].contains(&session), "{told:?}");
    assert_eq!(owner.get(&format!("/v1/sessions/{session}")).json()["state"], "new");
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
    let (_, mut kept) = open();
    place.run(&["keys", "revoke", &id, "--tenant", "acme"]).expect_status(0);
    ends(stream);
    // The control: the other one goes on, until nobody of the tenant may ask.
    admin.turn(&session, "hello", "turn.completed");
    kept.until("turn.completed");
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

/// Whoever runs the server gives a tenant rules of its own: what they deny is denied in every project of that
/// tenant, whatever its admin accepts, and in no other tenant's.
#[test]
fn the_rules_of_a_tenant_count_in_all_its_projects() {
    const RULE: &str = "version: 1\ncapabilities:\n  - { name: no-asks, match: { syscall: fs.read, path_glob: 'ask*.txt' }, action: deny, reason: not here }\n";
    let place = Place::new();
    let (acme, other) = (tenant(&place, "acme", &[]), tenant(&place, "other", &[]));
    let served = Served::new(&place);
    let of = |tenant: &str| As { served: &served, key: key(&place, tenant, &["admin"], &[]) };
    let (mine, theirs) = (of("acme"), of("other"));
    let decision = |client: &As<'_>, project: &std::path::Path| {
        let call = json!({ "syscall": "fs.read", "path": "ask1.txt", "caller": "agent" });
        let body = json!({ "project": project, "call": call });
        client.post("/v1/policy/check", &body).expect(200).json()["decision"].clone()
    };
    assert_eq!(decision(&mine, &acme), "allow");
    let (file, root) = (place.path("rules.yaml"), acme.parent().unwrap().display().to_string());
    let set = |text: &str| {
        std::fs::write(&file, text).unwrap();
        place.run(&[
            "tenants",
            "update",
            "acme",
            "--root",
            &root,
            "--policy",
            file.to_str().unwrap(),
        ])
    };
    assert_ne!(set("version: 1\ncapabilities: [ { name: x } ]\n").status, Some(0));
    set(RULE).expect_status(0);
    assert_eq!(
        (decision(&mine, &acme), decision(&theirs, &other)),
        (json!("deny"), json!("allow"))
    );
    // The tenant's own admin cannot lift it.
    let shipped = place.run(&["policy", "show", "--shipped"]).expect_status(0).stdout;
    let rule = "  - { name: all-reads, match: { syscall: fs.read }, action: allow }";
    let open = format!("{}\n{rule}\n", shipped.trim_end());
    let proposal = json!({ "project": acme, "policy": open });
    let digest = mine.post("/v1/policy/propose", &proposal).expect(200).json()["digest"].clone();
    let approval = json!({ "project": acme, "policy": open, "digest": digest });
    mine.post("/v1/policy/approve", &approval).expect(200);
    assert_eq!(decision(&mine, &acme), "deny");
    let session = mine.session(&acme, QUESTION);
    let events = mine.turn(&session, "read it", "turn.completed");
    assert!(events.iter().any(|event| event["kind"] == "tool.denied"), "{events:?}");
    // What its people do with branches is decided by them as well.
    let fork = |name: &str| {
        mine.post(&format!("/v1/sessions/{session}/branches"), &json!({ "name": name }))
    };
    fork("one").expect(201);
    let text = "version: 1\ncapabilities: [ { name: no-forks, match: { syscall: session.fork }, action: deny } ]\n";
    set(text).expect_status(0);
    assert_eq!(fork("two").expect(403).code(), "policy_denied");
    set(RULE).expect_status(0);
    fork("three").expect(201);
    // The control: without them the project's rules decide.
    place.run(&["tenants", "update", "acme", "--quota", "turns_per_day=99"]).expect_status(0);
    assert_eq!(decision(&mine, &acme), "deny", "what is not named stays");
    place.run(&["tenants", "update", "acme", "--clear", "policy"]).expect_status(0);
    assert_eq!(decision(&mine, &acme), "allow");
    let listed = place.run(&["tenants", "list", "--json"]).expect_status(0).stdout;
    let rows = listed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let row = rows.into_iter().find(|row| row["tenant"] == "acme").unwrap();
    assert_eq!((&row["roots"], &row["quotas"]["turns_per_day"]), (&json!([root]), &json!(99)));
}

/// The failure: rules that whoever runs the server told a tenant bound its new sessions only: one that ran went on under
/// those of before, turn after turn, and what was granted in it stayed granted.
/// Now: they bind the next turn of every session, and open nothing in one that was started without them.
#[test]
fn the_rules_of_a_tenant_bind_the_later_turns_of_its_sessions() {
    const READS: &str = "
version: 1
steps:
  - emit: [ { call: { id: a, tool: fs.read, args: { path: ask1.txt } } } ]
  - emit: [ { text: done } ]
  - emit: [ { call: { id: b, tool: fs.read, args: { path: ask1.txt } } } ]
  - emit: [ { text: done } ]
  - emit: [ { call: { id: c, tool: fs.read, args: { path: ask1.txt } } } ]
  - emit: [ { text: done } ]
";
    let rule = |name: &str, syscall: &str, action: &str| {
        format!("  - {{ name: {name}, match: {{ syscall: {syscall} }}, action: {action} }}\n")
    };
    let place = Place::new();
    let acme = tenant(&place, "acme", &[]);
    let served = Served::new(&place);
    let mine = As { served: &served, key: key(&place, "acme", &["admin"], &[]) };
    let file = place.path("rules.yaml");
    let set = |rules: &[String]| {
        let text = format!("version: 1\ncapabilities:\n{}", rules.concat());
        std::fs::write(&file, text).unwrap();
        let update = ["tenants", "update", "acme", "--policy", file.to_str().unwrap()];
        place.run(&update).expect_status(0);
    };
    set(&[rule("writes", "fs.write", "require_review")]);
    let session = mine.session(&acme, READS);
    let turn = |expected: &str| {
        let events = mine.turn(&session, "read it", "turn.completed");
        let kinds: Vec<_> = events.iter().filter_map(|event| event["kind"].as_str()).collect();
        assert!(kinds.contains(&expected), "{expected}: {kinds:?}");
    };
    turn("tool.completed");
    set(&[rule("reads", "fs.read", "deny"), rule("writes", "fs.write", "allow")]);
    turn("tool.denied");
    // The same rules without that one: what was told when it began is in force, and nothing else.
    set(&[rule("writes", "fs.write", "require_review")]);
    turn("tool.completed");
    let again = mine.post(&format!("/v1/sessions/{session}/replay"), &json!({})).expect(200).json();
    assert_eq!(again["equal"], true, "{again}");
}

/// The failure: a key that took the place of one that ends never ended.
#[test]
fn a_key_that_replaces_one_lasts_as_long_as_that_one_did() {
    let place = Place::new();
    let served = Served::new(&place);
    let text = key(&place, "local", &["viewer"], &["--expires", "90d"]);
    let id = text.split('.').nth(2).unwrap();
    let days = |path: &str, body: Value| {
        let made = served.post(path, &body).expect(201).json();
        let keys = served.get("/v1/keys").expect(200).json()["keys"].as_array().unwrap().clone();
        let row = keys.iter().find(|row| row["key"] == made["key"]).unwrap().clone();
        let [end, made_us] = ["expires_us", "created_us"].map(|name| row[name].as_u64().unwrap());
        (made["key"].as_str().unwrap().to_owned(), (end - made_us).div_ceil(86_400_000_000))
    };
    let (second, term) = days(&format!("/v1/keys/{id}/rotate"), json!({}));
    assert_eq!(term, 90);
    let (third, term) = days(&format!("/v1/keys/{second}/rotate"), json!({ "lifetime_s": 86_400 }));
    assert_eq!(term, 1);
    assert_eq!(days(&format!("/v1/keys/{third}/rotate"), json!({})).1, 1);
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
    let rules = place.path("rules.yaml");
    std::fs::write(
        &rules,
        "capabilities: [{ name: x, match: { syscall: fs.read }, action: deny }]\n",
    )
    .unwrap();
    let rules = rules.display().to_string();
    for arguments in [
        ["tenants", "create", "bad", "--quota", "turns=1"],
        ["tenants", "create", "bad", "--profile", "none"],
        ["tenants", "create", "bad", "--root", "relative"],
        ["tenants", "create", "acme", "--quota", "turns_per_day=1"],
        ["tenants", "create", "local", "--quota", "turns_per_day=1"],
        ["tenants", "update", "local", "--policy", &rules],
    ] {
        let ran = place.run(&arguments);
        assert!(matches!(ran.status, Some(2 | 8)), "{arguments:?} {ran:?}");
    }
    let home = place.home().display().to_string();
    place.run(&["tenants", "create", "bad", "--root", &home]).expect_status(2);
}
