//! Every list is told page by page, and no page is larger than the description says.

use serde_json::{Value, json};

use crate::client::Served;
use crate::harness::Place;
use crate::strangers::{described, house};
use crate::world::As;

/// Routes that answer a list within one thing, and what bounds it.
const BOUNDED: [(&str, &str); 3] = [
    ("/v1/policy", "one document: what a policy file may hold"),
    ("/v1/usage", "`days`, of which there are 31 at most"),
    ("/v1/sessions/{session}/events/{seq}/explanation", "one decision: the rules of a policy"),
];
/// The cursor of events is an event's number, which streams use, too.
const EVENTS: &str = "/v1/sessions/{session}/events";

/// A list of the description.
struct List {
    path: String,
    cursor: &'static str,
    /// Most items of a page.
    most: u64,
    /// The member of the answer that is the list.
    member: String,
}

/// What a schema says with its reference followed.
fn followed<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(path) => document.pointer(path.trim_start_matches('#')).unwrap(),
        None => schema,
    }
}

/// The members of an answer that are lists, also of what it is made of.
fn listed(document: &Value, schema: &Value) -> Vec<String> {
    let schema = followed(document, schema);
    let members = schema["properties"].as_object().into_iter().flatten();
    let own = members.filter(|(_, one)| one["type"] == "array").map(|(name, _)| name.clone());
    let parts = schema["allOf"].as_array().into_iter().flatten();
    own.chain(parts.flat_map(|part| listed(document, part))).collect()
}

/// Every route that answers a list, held to a cursor and to a limit with a number; one thing has its id at its path's end.
fn lists(document: &Value) -> Vec<List> {
    let mut found = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let schema = &methods["get"]["responses"]["200"]["content"]["application/json"]["schema"];
        let members = listed(document, schema);
        let is_bounded = BOUNDED.iter().any(|(bounded, _)| bounded == path);
        if members.is_empty() || path.ends_with('}') || is_bounded {
            continue;
        }
        let parameters = methods["get"]["parameters"].as_array().unwrap();
        let named = |name: &str| parameters.iter().find(|one| one["name"] == name);
        let cursor = if path == EVENTS { "from" } else { "cursor" };
        assert!(named(cursor).is_some(), "{path} has no cursor");
        let limit = named("limit").unwrap_or_else(|| panic!("{path} has no limit"));
        let most = limit["schema"]["maximum"].as_u64();
        let most = most.unwrap_or_else(|| panic!("{path} names no limit: {limit}"));
        let answer = followed(document, schema);
        assert!(answer["properties"]["next"].is_object(), "{path} does not say where to go on");
        // Of plans and runs the plans are the list; runs have a number of their own.
        let member = members.iter().find(|member| *member != "runs").unwrap().clone();
        found.push(List { path: path.clone(), cursor, most, member });
    }
    found
}

/// All items, read in pages of some size, and how many pages there were.
fn read(client: &As<'_>, list: &List, line: &str, limit: u64) -> (Vec<Value>, usize) {
    let (mut items, mut pages, mut at) = (Vec::new(), 0, String::new());
    loop {
        let answer = client.get(&format!("{line}limit={limit}{at}")).expect(200).json();
        let page = answer[&list.member].as_array().unwrap_or_else(|| panic!("{line}: {answer}"));
        // A turn of a chat is what was said and the answer.
        let most = if line.contains("/v1/chat/") { 2 * limit } else { limit };
        assert!(page.len() as u64 <= most, "{line}: {}", page.len());
        items.extend(page.iter().cloned());
        pages += 1;
        let next = match &answer["next"] {
            Value::Null => return (items, pages),
            Value::String(next) => next.clone(),
            next => next.to_string(),
        };
        assert!(pages < 1_000 && !page.is_empty(), "{line} does not end");
        at = format!("&{}={next}", list.cursor);
    }
}

/// The failure: most lists were told whole, however long they were.
/// Each list of the description has a cursor and names its limit; pages of one item are the same list as large ones; and
/// what is over the limit, or no cursor, is refused.
#[test]
fn every_list_has_pages_in_sandboxes() {
    let place = Place::new();
    let served = Served::new(&place);
    let world = house(&place, &served);
    let client = As { served: &served, key: served.token.clone() };
    for tenant in ["one", "two"] {
        client.post("/v1/tenants", &json!({ "tenant": tenant, "roots": [] })).expect(201);
    }
    let plan = json!({
        "specVersion": "runtime-plan/v1", "id": "another", "version": 1,
        "root": { "type": "element", "tag": "p", "children": [] },
    });
    client.post("/v1/plans", &json!({ "plan": plan.to_string() })).expect(201);
    let document = described(&served);
    let found = lists(&document);
    let names: Vec<&str> = found.iter().map(|list| list.path.as_str()).collect();
    assert!(found.len() >= 12, "{names:?}");
    let calls = world.calls();
    let mut longer = 0;
    for list in &found {
        let route = format!("GET {}", list.path);
        let call = calls.iter().find(|call| call.route == route).unwrap();
        let line = call.line.strip_prefix("GET ").unwrap();
        let line = format!("{line}{}", if line.contains('?') { "&" } else { "?" });
        let (whole, _) = read(&client, list, &line, list.most);
        let (parts, pages) = read(&client, list, &line, 1);
        assert_eq!(parts, whole, "{line}");
        longer += usize::from(pages > 1);
        for refused in [
            "limit=0".to_owned(),
            format!("limit={}", list.most + 1),
            format!("{}=marmalade", list.cursor),
        ] {
            let answer = client.get(&format!("{line}{refused}"));
            assert_eq!(
                (answer.status, &*answer.code()),
                (400, "request_invalid"),
                "{line}{refused}"
            );
        }
    }
    assert!(longer >= 8, "{longer} of {names:?} have more than one item");
}
