//! Cases observed on another implementation of the same contract. Where this product answers
//! otherwise on purpose, `differences.json` says what it answers and why.

use std::collections::BTreeMap;

use glasshouse_plan::json::Document;
use glasshouse_plan::state::{Host, State, StateLimits, apply};
use glasshouse_plan::template::{Scope, problems, resolve_string, resolve_text};
use glasshouse_plan::{
    Context, Event, Limits, Profile, ProfileName, check_text, guard, parse, path, render,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Deserialize)]
struct Difference {
    ours: Value,
    reason: String,
}

fn differences() -> BTreeMap<String, Difference> {
    serde_json::from_str(include_str!("../cases/differences.json")).unwrap()
}

/// Runs every case of a file and compares with the baseline or the recorded difference.
fn run(file: &str, answer: impl Fn(&Value) -> Value) {
    let differences = differences();
    let mut failures = Vec::new();
    for line in file.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let id = case["id"].as_str().unwrap();
        let got = answer(&case);
        let want = match differences.get(id) {
            Some(difference) => {
                assert!(difference.reason.len() > 10, "{id} needs a reason");
                assert_ne!(difference.ours, case["baseline"], "{id} is no difference");
                &difference.ours
            }
            None => &case["baseline"],
        };
        if got != *want {
            failures.push(format!("{id}: got {got}, want {want}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn event(value: &Value) -> Option<Event> {
    let kind = value.get("type")?.as_str()?;
    Some(Event::new(kind, value.get("payload").map(object)).unwrap())
}

#[test]
fn guards() {
    run(include_str!("../cases/guard.jsonl"), |case| {
        let text = case["text"].as_str().unwrap();
        if case["guard"] == "plan" {
            return json!(parse(text, &Limits::default()).is_ok());
        }
        if case["guard"] == "modules" {
            let plan = format!(r#"{{"id":"m","version":1,"root":{text}}}"#);
            return json!(parse(&plan, &Limits::default()).unwrap().component_modules());
        }
        let Ok(document) = Document::parse(text, &Limits::default()) else { return json!(false) };
        let value = document.root();
        let checked = match case["guard"].as_str().unwrap() {
            "node" => guard::node(value),
            "action" => guard::action(value),
            "capabilities" => guard::capabilities(value),
            "source" => guard::source(value),
            "state" => guard::state_model(value),
            other => panic!("unknown guard {other}"),
        };
        json!(checked.is_ok())
    });
}

#[test]
fn paths() {
    run(include_str!("../cases/path.jsonl"), |case| {
        let path = case["path"].as_str().unwrap();
        match case["op"].as_str().unwrap() {
            "split" => json!(path::split(path).collect::<Vec<_>>()),
            "safe" => json!(path::is_safe(path)),
            "template" => json!(path::is_template_path(path)),
            "get" => {
                let source = object(&case["source"]);
                path::get(&source, path).map_or(Value::Null, |found| found.to_value())
            }
            other => panic!("unknown operation {other}"),
        }
    });
}

#[test]
fn templates() {
    run(include_str!("../cases/template.jsonl"), |case| {
        if case["op"] == "problems" {
            let plan = parse(&case["plan"].to_string(), &Limits::default()).unwrap();
            return json!(problems(&plan).len());
        }
        let (state, variables, event) = (object(&case["state"]), Map::new(), event(&case["event"]));
        let scope = Scope {
            state: &state,
            event: event.as_ref(),
            user_id: "anonymous",
            variables: &variables,
        };
        let template = case["template"].as_str().unwrap();
        match case["op"].as_str().unwrap() {
            "text" => json!(resolve_text(template, &scope)),
            _ => resolve_string(template, &scope),
        }
    });
}

/// Answers what the baseline holds: state and whichever of actions and handled it names.
#[test]
fn states() {
    run(include_str!("../cases/state.jsonl"), |case| {
        let transitions = match case.get("actions") {
            Some(actions) => json!({"go": actions}),
            None => case["transitions"].clone(),
        };
        let mut model = json!({"initial": case["state"]});
        if !transitions.is_null() {
            model["transitions"] = transitions;
        }
        let plan = json!({"id": "s", "version": 1, "state": model,
            "root": {"type": "text", "value": ""}});
        let plan = parse(&plan.to_string(), &Limits::default()).unwrap();
        let limits = StateLimits::default();
        let state = State::initial(&plan, &limits).unwrap();
        let host = Host { user_id: "anonymous", variables: &Map::new() };
        match apply(&state, &plan, &event(&case["event"]).unwrap(), &host, &limits) {
            Err(error) => json!({"error": error.code()}),
            Ok(applied) => {
                let mut answer = json!({"state": applied.state.values});
                if case["baseline"].get("actions").is_some() {
                    answer["actions"] = json!(applied.actions);
                }
                if case["baseline"].get("handled").is_some() {
                    answer["handled"] = json!(applied.handled);
                }
                answer
            }
        }
    });
}

/// A host that keeps one state for each plan and version.
#[test]
fn sequences() {
    run(include_str!("../cases/sequence.jsonl"), |case| {
        let mut kept: BTreeMap<(String, i64), State> = BTreeMap::new();
        let limits = StateLimits::default();
        let mut shown = Vec::new();
        for step in case["steps"].as_array().unwrap() {
            let plan = parse(&step["plan"].to_string(), &Limits::default()).unwrap();
            let key = (plan.id().to_owned(), plan.version());
            let mut state =
                kept.remove(&key).unwrap_or_else(|| State::initial(&plan, &limits).unwrap());
            if let Some(event) = step.get("event").and_then(event) {
                let host = Host { user_id: "anonymous", variables: &Map::new() };
                state = apply(&state, &plan, &event, &host, &limits).unwrap().state;
            }
            let profile = Profile::named(ProfileName::Balanced);
            let context = Context::new("s").unwrap().state(&state);
            shown.push(render(&plan, &profile, &context).unwrap().markup);
            kept.insert(key, state);
        }
        json!(shown)
    });
}

#[test]
fn policies() {
    run(include_str!("../cases/policy.jsonl"), |case| {
        let mut profile = profile(&case["profile"]);
        if let Some(bytes) = case["overrides"]["maxRuntimeSourceBytes"].as_u64() {
            profile.max_runtime_source_bytes = usize::try_from(bytes).unwrap();
        }
        json!(check_text(&case["plan"].to_string(), &Limits::default(), &profile).safe)
    });
}

fn profile(name: &Value) -> Profile {
    Profile::named(name.as_str().unwrap().parse().unwrap())
}

#[test]
fn hosts() {
    run(include_str!("../cases/host.jsonl"), |case| match case["op"].as_str().unwrap() {
        "specifier" => {
            json!(profile(&case["profile"]).allows_specifier(case["specifier"].as_str().unwrap()))
        }
        _ => {
            let allowed = serde_json::from_value(case["allowed"].clone()).unwrap();
            let profile =
                Profile { allowed_network_hosts: allowed, ..Profile::named(ProfileName::Strict) };
            json!(profile.allows_address(case["address"].as_str().unwrap()))
        }
    });
}

#[test]
fn html() {
    run(include_str!("../cases/html.jsonl"), |case| {
        let plan = match case["op"].as_str().unwrap() {
            "plan" => case["plan"].clone(),
            "html" => json!({"specVersion": "runtime-plan/v1", "id": "h", "version": 1,
                "root": case["node"]}),
            _ => json!({"specVersion": "runtime-plan/v1", "id": "h", "version": 1,
                "root": {"type": "element", "tag": "b", "props": case["props"]}}),
        };
        let plan = parse(&plan.to_string(), &Limits::default()).unwrap();
        // The least careful profile, so that what is refused here is refused everywhere.
        let relaxed = Profile::named(ProfileName::Relaxed);
        match render(&plan, &relaxed, &Context::new("s").unwrap()) {
            Err(error) => json!({"error": error.code()}),
            Ok(html) if case["op"] == "binding" => html
                .events
                .first()
                .map_or(Value::Null, |it| json!({"dom_event": it.dom_event, "event": it.event})),
            Ok(html) => json!(html.markup),
        }
    });
}

#[test]
fn every_difference_belongs_to_a_case() {
    let files = [
        include_str!("../cases/guard.jsonl"),
        include_str!("../cases/path.jsonl"),
        include_str!("../cases/template.jsonl"),
        include_str!("../cases/state.jsonl"),
        include_str!("../cases/sequence.jsonl"),
        include_str!("../cases/policy.jsonl"),
        include_str!("../cases/host.jsonl"),
        include_str!("../cases/html.jsonl"),
    ];
    for id in differences().keys() {
        let needle = format!("{{\"id\":\"{id}\",");
        assert!(files.iter().any(|file| file.contains(&needle)), "{id}");
    }
}
