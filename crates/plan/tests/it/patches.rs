//! Patches: differences between views, and live plans.

use glasshouse_plan::patch::{Live, Patch, View, diff};
use glasshouse_plan::state::{Host, State, StateLimits, apply};
use glasshouse_plan::{Context, Event, Limits, Profile, ProfileName, parse, render};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::properties::{node, scalar};
use crate::streams::profile;

fn view(root: &Value) -> View {
    let plan = json!({"id": "x", "version": 1, "root": root});
    let plan = parse(&plan.to_string(), &Limits::default()).unwrap();
    let context = Context::new("s").unwrap();
    let live = Live::new(plan, &profile(), &context).unwrap();
    let mut view = View::default();
    view.apply(&live.first(&context).unwrap()).unwrap();
    view
}

fn list(keys: &[&str]) -> Value {
    let item = |key: &&str| {
        json!({"type": "element", "tag": "li", "props": {"key": key},
               "children": [{"type": "text", "value": key}]})
    };
    json!({"type": "element", "tag": "ul", "children": keys.iter().map(item).collect::<Vec<_>>()})
}

/// Counts of ins, del, mov, text and others between two lists of keys.
fn check(from: &[&str], to: &[&str], want: [usize; 5]) {
    let (mut before, after) = (view(&list(from)), view(&list(to)));
    let patches = diff(&before, &after);
    let mut counts = [0; 5];
    for patch in &patches {
        counts[match patch {
            Patch::Ins { .. } => 0,
            Patch::Del { .. } => 1,
            Patch::Mov { .. } => 2,
            Patch::Text { .. } => 3,
            _ => 4,
        }] += 1;
    }
    assert_eq!(counts, want, "{from:?} to {to:?}: {patches:?}");
    before.apply(&patches).unwrap();
    assert_eq!(before.markup(), after.markup(), "{from:?} to {to:?}");
}

#[test]
fn b10_keyed_children_move_as_few_as_possible() {
    check(&["a", "b", "c"], &["a", "b", "c"], [0; 5]);
    check(&["a", "b", "c"], &["c", "a", "b"], [0, 0, 1, 0, 0]);
    check(&["a", "b", "c"], &["b", "c", "a"], [0, 0, 1, 0, 0]);
    check(&["a", "b", "c", "d"], &["d", "c", "b", "a"], [0, 0, 3, 0, 0]);
    check(&["a", "b"], &["x", "a", "b"], [2, 0, 0, 0, 1]);
    check(&["a", "b", "c"], &["a", "c"], [0, 1, 0, 0, 0]);
    check(&["a", "b", "c", "d", "e"], &["e", "x", "b", "d"], [2, 2, 1, 0, 1]);
    check(&[], &["a"], [2, 0, 0, 0, 1]);
    check(&["a", "a"], &["a"], [0, 1, 0, 0, 0]);
}

#[test]
fn b10_the_same_item_stays_open_when_one_is_added_before_it() {
    let row = |key: &str| json!({"type": "element", "tag": "details", "props": {"key": key}});
    let table = |keys: &[&str]| json!({"type": "element", "tag": "div", "children": keys.iter().map(|key| row(key)).collect::<Vec<_>>()});
    let (before, after) = (view(&table(&["1", "2", "3"])), view(&table(&["0", "1", "2", "3"])));
    let patches = diff(&before, &after);
    // Only the new row is touched; row 2, which a person opened, keeps its name.
    assert!(matches!(patches[0], Patch::Ins { id: 4, before: Some(1), .. }), "{patches:?}");
    let others = patches
        .iter()
        .filter(|patch| !matches!(patch, Patch::Ins { .. } | Patch::Attr { id: 4, .. }));
    assert_eq!(others.count(), 0, "{patches:?}");
}

#[test]
fn b12_a_label_that_changes_touches_the_label_only() {
    let form = |label: &str, more: bool| {
        let mut children = vec![
            json!({"type": "element", "tag": "label", "props": {"for": "f"},
                   "children": [{"type": "text", "value": label}]}),
            json!({"type": "element", "tag": "input", "props": {"id": "f", "name": "f"}}),
        ];
        if more {
            children.insert(
                0,
                json!({"type": "element", "tag": "input", "props": {"id": "g", "name": "g"}}),
            );
        }
        json!({"type": "element", "tag": "form", "children": children})
    };
    let patches = diff(&view(&form("Name", false)), &view(&form("Full name", false)));
    assert_eq!(patches, [Patch::Text { id: 2, append: false, value: "Full name".into() }]);
    // B15: a field that is added leaves the others alone.
    let patches = diff(&view(&form("Name", false)), &view(&form("Name", true)));
    assert!(
        patches.iter().all(|it| matches!(it, Patch::Ins { id: 4, .. } | Patch::Attr { id: 4, .. })),
        "{patches:?}"
    );
}

#[test]
fn an_event_costs_what_it_changes() {
    let rows: Vec<Value> = (0..300)
        .map(|at| {
            json!({"type": "element", "tag": "li", "children": [{"type": "text", "value":
            if at == 7 { "{{state.count}}" } else { "row" }}]})
        })
        .collect();
    let plan = json!({
        "id": "x", "version": 1,
        "state": {"initial": {"count": 1, "other": 1}, "transitions": {
            "add": [{"type": "increment", "path": "count"}],
            "same": [{"type": "set", "path": "count", "value": 2}],
            "else": [{"type": "increment", "path": "other"}]}},
        "root": {"type": "element", "tag": "div", "children": [
            {"type": "element", "tag": "ul", "children": rows},
            {"type": "element", "tag": "p", "props": {"hidden": "{{state.hide}}", "title": "t {{context.userId}}", "class": "c"}},
        ]},
    });
    let plan = parse(&plan.to_string(), &Limits::default()).unwrap();
    let context = Context::new("s").unwrap();
    let mut live = Live::new(plan.clone(), &profile(), &context).unwrap();
    let mut shown = View::default();
    shown.apply(&live.first(&context).unwrap()).unwrap();
    let mut state = State::initial(&plan, &StateLimits::default()).unwrap();
    let variables = Map::new();
    let host = Host { user_id: "u", variables: &variables };
    for (event, user, patches) in [
        ("add", "anonymous", 1),
        ("same", "anonymous", 0),
        ("else", "anonymous", 0),
        ("add", "ada", 2),
    ] {
        let event = Event::new(event, None).unwrap();
        state = apply(&state, &plan, &event, &host, &StateLimits::default()).unwrap().state;
        let context = Context::new("s").unwrap().state(&state).user(user);
        let changes = live.update(&context).unwrap();
        assert_eq!(changes.len(), patches, "{changes:?}");
        shown.apply(&changes).unwrap();
        assert_eq!(shown.markup(), render(&plan, &profile(), &context).unwrap().markup);
    }
    state.values.insert("hide".into(), json!(true));
    let context = Context::new("s").unwrap().state(&state).user("ada");
    shown.apply(&live.update(&context).unwrap()).unwrap();
    assert_eq!(shown.markup(), render(&plan, &profile(), &context).unwrap().markup);
    state.values.remove("hide");
    let context = Context::new("s").unwrap().state(&state).user("ada");
    shown.apply(&live.update(&context).unwrap()).unwrap();
    assert_eq!(shown.markup(), render(&plan, &profile(), &context).unwrap().markup);
}

#[test]
fn a_refused_plan_has_no_patches() {
    let plan = json!({"id": "x", "version": 1, "root": {"type": "element", "tag": "script"}});
    let plan = parse(&plan.to_string(), &Limits::default()).unwrap();
    let strict = Profile::named(ProfileName::Strict);
    let error = Live::new(plan, &strict, &Context::new("s").unwrap()).unwrap_err();
    assert_eq!(error.code(), "plan_unsafe");
}

#[test]
fn patches_that_do_not_fit_are_refused() {
    for (patches, code) in [
        (r#"[{"op":"ins","id":0,"node":{"tag":"p"}}]"#, "ok"),
        (r#"[{"op":"ins","id":0,"parent":9,"node":{"tag":"p"}}]"#, "plan_patch_invalid"),
        (
            r#"[{"op":"ins","id":0,"node":{"tag":"p"}},{"op":"ins","id":1,"node":{"tag":"p"}}]"#,
            "plan_patch_invalid",
        ),
        (
            r#"[{"op":"ins","id":0,"node":{"tag":"p"}},{"op":"ins","id":0,"parent":0,"node":{"text":"p"}}]"#,
            "plan_patch_invalid",
        ),
        (
            r#"[{"op":"ins","id":0,"node":{"text":"p"}},{"op":"ins","id":1,"parent":0,"node":{"text":"p"}}]"#,
            "plan_patch_invalid",
        ),
        (r#"[{"op":"del","id":0}]"#, "plan_patch_invalid"),
        (r#"[{"op":"ins","id":0,"node":{"tag":"p"}},{"op":"mov","id":0}]"#, "plan_patch_invalid"),
        (
            r#"[{"op":"ins","id":0,"node":{"tag":"p"}},{"op":"text","id":0,"append":true,"value":"x"}]"#,
            "plan_patch_invalid",
        ),
        (
            r#"[{"op":"ins","id":0,"node":{"tag":"p"}},{"op":"attr","id":0,"slot":1,"name":"class","value":null}]"#,
            "plan_patch_invalid",
        ),
    ] {
        let patches: Vec<Patch> = serde_json::from_str(patches).unwrap();
        let again: Vec<Patch> =
            serde_json::from_str(&serde_json::to_string(&patches).unwrap()).unwrap();
        assert_eq!(again, patches);
        let result = View::default().apply(&patches);
        assert_eq!(result.map_or_else(|error| error.code(), |()| "ok"), code, "{patches:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn differences_lead_from_one_view_to_the_other(from in node(), to in node()) {
        let safe = |root: &Value| {
            let plan = json!({"id": "x", "version": 1, "root": root});
            glasshouse_plan::check(&parse(&plan.to_string(), &Limits::default()).unwrap(), &profile()).safe
        };
        // About one pair in five; enough of all cases are such.
        if !safe(&from) || !safe(&to) {
            return Ok(());
        }
        let (mut before, after) = (view(&from), view(&to));
        let patches = diff(&before, &after);
        before.apply(&patches).unwrap();
        prop_assert_eq!(before.markup(), after.markup());
        prop_assert_eq!(diff(&before, &after), Vec::<Patch>::new());
    }

    #[test]
    fn a_live_plan_shows_what_rendering_shows(root in node(), first in scalar(), second in scalar()) {
        let plan = json!({"id": "x", "version": 1, "root": root, "state": {"initial": {"evil": first}}});
        let plan = parse(&plan.to_string(), &Limits::default()).unwrap();
        let context = Context::new("s").unwrap();
        let Ok(mut live) = Live::new(plan.clone(), &profile(), &context) else { return Ok(()) };
        let mut shown = View::default();
        shown.apply(&live.first(&context).unwrap()).unwrap();
        let mut state = State::initial(&plan, &StateLimits::default()).unwrap();
        state.values.insert("evil".into(), second);
        let context = context.state(&state);
        shown.apply(&live.update(&context).unwrap()).unwrap();
        prop_assert_eq!(shown.markup(), render(&plan, &profile(), &context).unwrap().markup);
    }
}
