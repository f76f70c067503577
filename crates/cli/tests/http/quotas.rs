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
