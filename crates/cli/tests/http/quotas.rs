//! What a tenant used stays used: nothing that it may do makes a count smaller, and nothing that it may send goes past one.

use serde_json::{Value, json};

use crate::client::Served;
use crate::harness::Place;
use crate::world::{As, Call, key, settled, tenant};

/// Uses 1,500 tokens a turn.
const COSTLY: &str = "version: 1
steps:
  - { emit: [ { text: Hello. } ], usage: { input: 1000, output: 500 } }
  - { emit: [ { text: Again. } ], usage: { input: 1000, output: 500 } }
";

/// Turns, tokens, and what is told of the model by its name.
fn today(client: &As<'_>) -> (Value, u64, Vec<u64>) {
    let used = client.get("/v1/usage?days=1").expect(200).json();
    let day = used["days"][0].clone();
    let sum = |total: &Value| -> u64 {
        total["tokens"].as_object().unwrap().values().map(|some| some.as_u64().unwrap()).sum()
    };
    let models = day["models"].as_object().unwrap().iter();
    let named = models.filter(|(name, _)| !name.is_empty());
    (day["turns"].clone(), sum(&day["total"]), named.map(|(_, total)| sum(total)).collect())
}

/// The failure: tokens and cost of a day were read from the bodies of answers, so deleting a session gave back what it
/// had used: with room for 1,500 tokens a day, four turns of as many were taken.
/// The mend: an erasure keeps what the answers that it erases had used, and the count reads it there.
#[test]
fn what_a_deleted_session_used_stays_used() {
    let place = Place::new();
    let acme = tenant(&place, "acme", &["tokens_per_day=3000"]);
    let admin = key(&place, "acme", &["admin"], &[]);
    let served = Served::new(&place);
    let client = As { served: &served, key: admin.clone() };
    // The count is asked for after the first one was deleted, and before the second one is.
    for _ in 0..2 {
        let session = client.session(&acme, COSTLY);
        client.turn(&session, "hello", "turn.completed");
        let line = format!("DELETE /v1/sessions/{session}?keep_blobs=true");
        settled(&client, &Call { route: "", line, body: None }).expect(200);
        let _ = today(&client);
    }
    let check = |client: &As<'_>| {
        assert_eq!(today(client), (json!(2), 3_000, vec![3_000]));
        let body = json!({ "project": acme, "provider": "scripted", "scenario": COSTLY });
        let refused = client.post("/v1/sessions", &body).expect(429).json();
        assert_eq!(refused["context"]["quota"], "tokens_per_day");
    };
    check(&client);
    drop(served);
    let served = Served::new(&place);
    check(&As { served: &served, key: admin });
}

/// The failure: `stored_bytes` was looked at where a turn or a session begins, so whoever had no room left forked with
/// reasons of 900 KB, had policies accepted and made keys, each of which was stored.
/// The mend: a route that stores something looks first, and what is kept for good has a bound of its own.
#[test]
fn where_no_room_is_left_nothing_more_is_stored() {
    let place = Place::new();
    let acme = tenant(&place, "acme", &[]);
    let served = Served::new(&place);
    let client = As { served: &served, key: key(&place, "acme", &["admin"], &[]) };
    let session = client.session(&acme, COSTLY);
    client.turn(&session, "hello", "turn.completed");
    let spare = client.session(&acme, COSTLY);
    let made = client.post("/v1/keys", &json!({ "roles": vec!["viewer"; 2_000] })).expect(201);
    assert_eq!(made.json()["roles"], json!(["viewer"]), "a role counts once");
    let forks = format!("/v1/sessions/{session}/branches");
    let refused = client.post(&forks, &json!({ "reason": "r".repeat(1_025) })).expect(400);
    assert_eq!(refused.code(), "request_invalid");
    let longest = json!({ "name": "try", "reason": "r".repeat(1_024) });
    client.post(&forks, &longest).expect(201);
    let policy = "version: 1\ncapabilities: []\n";
    let proposal = json!({ "project": acme, "policy": policy });
    let proposed = client.post("/v1/policy/propose", &proposal).expect(200).json();
    let approval = json!({ "project": acme, "policy": policy, "digest": proposed["digest"] });
    let key = made.json()["key"].as_str().unwrap().to_owned();
    place.run(&["tenants", "update", "acme", "--quota", "stored_bytes=1000"]).expect_status(0);
    let no = json!({});
    let checks: [(&str, String, &Value, bool); 13] = [
        (
            "POST",
            "/v1/sessions".to_owned(),
            &json!({ "project": acme, "provider": "scripted", "scenario": COSTLY }),
            false,
        ),
        ("POST", format!("/v1/sessions/{session}/turns"), &json!({ "message": "more" }), false),
        ("POST", forks, &json!({ "name": "again" }), false),
        ("POST", format!("/v1/sessions/{session}/branches/try/merge"), &no, false),
        ("POST", "/v1/keys".to_owned(), &json!({ "roles": ["viewer"] }), false),
        ("POST", format!("/v1/keys/{key}/rotate"), &no, false),
        ("POST", "/v1/policy/approve".to_owned(), &approval, false),
        ("POST", "/v1/plans".to_owned(), &json!({ "plan": "{}" }), false),
        // What only tells, makes room, ends something or takes it back.
        ("POST", "/v1/policy/propose".to_owned(), &proposal, true),
        ("POST", "/v1/audit/verify".to_owned(), &no, true),
        ("DELETE", format!("/v1/keys/{key}"), &Value::Null, true),
        ("POST", format!("/v1/sessions/{spare}/close"), &no, true),
        ("DELETE", format!("/v1/sessions/{session}?keep_blobs=true"), &Value::Null, true),
    ];
    for (method, path, body, is_taken) in checks {
        let body = (!body.is_null()).then(|| body.clone());
        let answer = settled(&client, &Call { route: "", line: format!("{method} {path}"), body });
        if is_taken {
            assert_eq!(answer.status, 200, "{method} {path}: {}", answer.text());
        } else {
            assert_eq!(answer.status, 429, "{method} {path}: {}", answer.text());
            assert_eq!(answer.json()["context"]["quota"], "stored_bytes", "{path}");
        }
    }
}
