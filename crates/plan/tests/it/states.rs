//! State: limits, revisions, and writes that must not leave plain data.

use glasshouse_plan::state::{Host, State, StateLimits, apply};
use glasshouse_plan::{Context, Event, Limits, Plan, Profile, ProfileName, check, parse, render};
use serde_json::{Map, Value, json};

fn plan(initial: Value, actions: Value) -> Plan {
    let text = json!({"specVersion": "runtime-plan/v1", "id": "p", "version": 1,
        "root": {"type": "text", "value": ""},
        "state": {"initial": initial, "transitions": {"go": actions}}});
    parse(&text.to_string(), &Limits::default()).unwrap()
}

fn go(plan: &Plan, limits: &StateLimits) -> Result<Value, &'static str> {
    let state = State::initial(plan, limits).map_err(|error| error.code())?;
    let host = Host { user_id: "u", variables: &Map::new() };
    let event = Event::new("go", None).unwrap();
    let applied = apply(&state, plan, &event, &host, limits).map_err(|error| error.code())?;
    assert_eq!(applied.state.revision, state.revision + 1);
    Ok(Value::Object(applied.state.values))
}

fn check_step(initial: Value, actions: Value, want: Result<Value, &'static str>) {
    let plan = plan(initial, actions);
    assert_eq!(go(&plan, &StateLimits::default()), want);
}

#[test]
fn arrays_stay_arrays() {
    let set = |path: &str| json!([{"type": "set", "path": path, "value": 9}]);
    check_step(json!({"a": [1, 2]}), set("a.1"), Ok(json!({"a": [1, 9]})));
    check_step(json!({"a": [1, 2]}), set("a.2"), Ok(json!({"a": [1, 2, 9]})));
    check_step(json!({"a": [1, 2]}), set("a.3"), Err("plan_state_path_invalid"));
    check_step(json!({"a": [1, 2]}), set("a.x"), Err("plan_state_path_invalid"));
    check_step(json!({"a": [1, 2]}), set("a.length"), Err("plan_state_path_invalid"));
    check_step(json!({"a": [1, 2]}), set("a.01"), Err("plan_state_path_invalid"));
    check_step(json!({"a": [{"b": 1}]}), set("a.0.b"), Ok(json!({"a": [{"b": 9}]})));
}

/// A writer without defences: decodes escapes and walks wherever the path leads, as scripts do.
fn undefended_set(root: &mut Value, path: &str) {
    let decoded = path.replace("%25", "%").replace("%5F", "_").replace("%5f", "_");
    let place = decoded
        .split('.')
        .map(str::trim)
        .fold(root, |place, segment| &mut place[segment.to_owned()]);
    *place = json!("polluted");
}

#[test]
fn paths_that_reach_a_prototype_are_refused_before_and_while_running() {
    for path in [
        "__proto__.x",
        "a.__proto__.x",
        " __proto__ .x",
        "constructor.prototype.x",
        "prototype",
        "a.%5F%5Fproto__.x",
        "%255f_proto__.x",
    ] {
        let mut control = json!({"a": {}});
        undefended_set(&mut control, path);
        let reached = control.to_string();
        let names = ["\"__proto__\"", "\"constructor\"", "\"prototype\""];
        assert!(names.iter().any(|name| reached.contains(name)), "{path:?}: {reached}");
        for kind in ["set", "push", "increment", "toggle"] {
            let plan = plan(json!({"a": {}}), json!([{"type": kind, "path": path, "value": 1}]));
            let report = check(&plan, &Profile::named(ProfileName::Relaxed));
            assert_eq!(report.issues[0].code, "plan_path_unsafe", "{path:?}");
            assert_eq!(report.issues[0].pointer, "/state/transitions/go/0/path");
            assert_eq!(go(&plan, &StateLimits::default()), Err("plan_path_unsafe"), "{path:?}");
        }
    }
    // Ordinary words stay usable.
    let set = json!([{"type": "set", "path": "toString", "value": 1}]);
    check_step(json!({}), set, Ok(json!({"toString": 1})));
}

#[test]
fn a_failed_step_changes_nothing() {
    let actions = json!([{"type": "increment", "path": "n"},
                         {"type": "increment", "path": "big", "by": 1e308}]);
    let plan = plan(json!({"n": 0, "big": 1.7e308}), actions);
    let state = State::initial(&plan, &StateLimits::default()).unwrap();
    let host = Host { user_id: "u", variables: &Map::new() };
    let event = Event::new("go", None).unwrap();
    let error = apply(&state, &plan, &event, &host, &StateLimits::default()).unwrap_err();
    assert_eq!(error.code(), "plan_state_number_invalid");
    assert_eq!(error.pointer(), "/state/transitions/go/1");
    assert_eq!(state.values["n"], 0);
}

#[test]
fn growth_ends_at_a_limit() {
    let limits = StateLimits { bytes: 4096, depth: 6, items: 100 };
    let grow = |actions: Value, initial: Value| {
        let plan = plan(initial, actions);
        let host = Host { user_id: "u", variables: &Map::new() };
        let event = Event::new("go", None).unwrap();
        let mut state = State::initial(&plan, &limits).unwrap();
        for step in 0..1_000 {
            match apply(&state, &plan, &event, &host, &limits) {
                Ok(applied) => state = applied.state,
                Err(error) => return (step, error.code()),
            }
        }
        (1_000, "never")
    };
    let push = json!([{"type": "push", "path": "l", "value": 1}]);
    assert_eq!(grow(push, json!({})), (100, "plan_state_limit"));
    // A value that doubles with each action.
    let double = json!([{"type": "push", "path": "l", "value": {"$from": "state.l"}}]);
    let (steps, code) = grow(double, json!({"l": [1]}));
    assert!(steps < 20, "{steps}");
    assert_eq!(code, "plan_state_limit");
    let deep = json!([{"type": "set", "path": "a.b.c.d.e.f.g", "value": 1}]);
    assert_eq!(grow(deep, json!({})), (0, "plan_state_limit"));
}

#[test]
fn many_doublings_in_one_step_are_stopped_while_they_happen() {
    let doubling = json!({"type": "push", "path": "l", "value": {"$from": "state.l"}});
    let plan = plan(json!({"l": [1]}), Value::Array(vec![doubling; 140]));
    let limits = StateLimits { depth: 1_000, ..StateLimits::default() };
    assert_eq!(go(&plan, &limits), Err("plan_state_limit"));
}

#[test]
fn two_writers_do_not_lose_each_others_work() {
    let plan = plan(json!({"n": 0}), json!([{"type": "increment", "path": "n"}]));
    let limits = StateLimits::default();
    let host = Host { user_id: "u", variables: &Map::new() };
    let event = Event::new("go", None).unwrap();
    let mut state = State::initial(&plan, &limits).unwrap();
    let seen = state.revision;
    state.expect_revision(seen).unwrap();
    state = apply(&state, &plan, &event, &host, &limits).unwrap().state;
    assert_eq!(state.expect_revision(seen).unwrap_err().code(), "plan_state_conflict");
    for _ in 0..9 {
        state = apply(&state, &plan, &event, &host, &limits).unwrap().state;
    }
    assert_eq!((state.values["n"].clone(), state.revision), (json!(10), 10));
}

#[test]
fn a_state_of_another_version_is_refused() {
    let first = plan(json!({}), json!([]));
    let mut state = State::initial(&first, &StateLimits::default()).unwrap();
    state.plan_version = 2;
    let host = Host { user_id: "u", variables: &Map::new() };
    let event = Event::new("go", None).unwrap();
    let error = apply(&state, &first, &event, &host, &StateLimits::default()).unwrap_err();
    assert_eq!(error.code(), "plan_state_plan_mismatch");
}

#[test]
fn an_event_without_a_transition_says_so() {
    let plan = plan(json!({"n": 0}), json!([]));
    let state = State::initial(&plan, &StateLimits::default()).unwrap();
    let host = Host { user_id: "u", variables: &Map::new() };
    for kind in ["other", "constructor", "__proto__"] {
        let event = Event::new(kind, None).unwrap();
        let applied = apply(&state, &plan, &event, &host, &StateLimits::default()).unwrap();
        assert!(!applied.handled);
        assert_eq!(applied.state, state);
    }
    assert_eq!(Event::new(" ", None).unwrap_err().code(), "plan_state_event_invalid");
}

#[test]
fn input_is_apart_from_the_payload_and_has_a_shape() {
    let check = |input: Value, good: bool| {
        let members = input.as_object().unwrap().clone();
        let made = Event::new("go", None).unwrap().with_input(members);
        assert_eq!(made.is_ok(), good, "{input}");
        let written = json!({"type": "go", "input": input});
        assert_eq!(serde_json::from_value::<Event>(written).is_ok(), good, "{input}");
    };
    for (input, good) in [
        (json!({}), true),
        (json!({"value": "x", "checked": true, "key": "Enter"}), true),
        (json!({"value": 1.5}), true),
        (json!({"value": ["a", "b"]}), true),
        (json!({"fields": {"a": "x", "b": true, "c": ["d"]}}), true),
        (json!({"value": null}), false),
        (json!({"value": {"a": 1}}), false),
        (json!({"value": [1]}), false),
        (json!({"checked": "on"}), false),
        (json!({"key": 1}), false),
        (json!({"fields": ["a"]}), false),
        (json!({"fields": {"a": {"b": 1}}}), false),
        (json!({"files": "x"}), false),
        (json!({"value": "x".repeat(256 * 1024)}), false),
    ] {
        check(input, good);
    }
    // What is typed does not pass for the plan's own data, and no template in it is read.
    let plan = plan(
        json!({"own": 0, "typed": 0}),
        json!([
            {"type": "set", "path": "own", "value": {"$from": "event.payload.value"}},
            {"type": "set", "path": "typed", "value": {"$from": "event.input.value"}}]),
    );
    let input = json!({"value": "{{state.own}}"}).as_object().unwrap().clone();
    let payload = json!({"value": "mine"}).as_object().cloned();
    let event = Event::new("go", payload).unwrap().with_input(input).unwrap();
    let state = State::initial(&plan, &StateLimits::default()).unwrap();
    let host = Host { user_id: "u", variables: &Map::new() };
    let applied = apply(&state, &plan, &event, &host, &StateLimits::default()).unwrap();
    assert_eq!(
        Value::Object(applied.state.values),
        json!({"own": "mine", "typed": "{{state.own}}"})
    );
}

/// A host reads names from the page, where they have the surface's prefix.
#[test]
fn a_binding_happens_with_the_fields_of_its_own_surface() {
    let text = json!({"specVersion": "runtime-plan/v1", "id": "p", "version": 1,
        "root": {"type": "element", "tag": "form", "props": {"onSubmit": "send"}, "children": [
            {"type": "element", "tag": "input", "props": {"name": "mail", "aria-label": "Mail"}}]}});
    let plan = parse(&text.to_string(), &Limits::default()).unwrap();
    let context = Context::new("s1").unwrap();
    let html = render(&plan, &Profile::named(ProfileName::Strict), &context).unwrap();
    assert!(html.markup.contains("name=\"s1-mail\""), "{}", html.markup);
    let input = json!({"fields": {"s1-mail": "a@b", "mail": "not ours", "s2-mail": "theirs"}});
    let event = html.events[0].happened("s1", input.as_object().unwrap().clone()).unwrap();
    let written = serde_json::to_value(&event).unwrap();
    assert_eq!(written, json!({"type": "send", "input": {"fields": {"mail": "a@b"}}}));
}
