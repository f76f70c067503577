//! Members that nobody reads are named, with the one that may be meant: a plan whose author misspelt a member does
//! something else than it says.

use glasshouse_plan::{Context, Limits, Profile, ProfileName, check, parse, render};
use serde_json::{Value, json};

/// A plan with members in the place of its own.
fn plan(more: Value) -> Value {
    let mut plan = json!({"specVersion": "runtime-plan/v1", "id": "m", "version": 1,
        "root": {"type": "text", "value": "x"}});
    for (key, value) in more.as_object().unwrap() {
        plan[key] = value.clone();
    }
    plan
}

/// Remarks on members, by place and reason.
fn remarks(plan: &Value) -> Vec<(String, String)> {
    let plan = parse(&plan.to_string(), &Limits::default()).unwrap();
    let report = check(&plan, &Profile::named(ProfileName::Relaxed));
    assert!(report.safe, "{report:?}");
    let notes = report.notes.into_iter().filter(|note| note.code == "plan_member_unknown");
    notes.map(|note| (note.pointer, note.message)).collect()
}

#[test]
fn a_member_that_no_object_of_the_format_has_is_named() {
    let add = |action: Value| json!({"state": {"initial": {}, "transitions": {"a/b": [action]}}});
    let source = |more: (&str, &str)| {
        let mut source = json!({"code": "export default 'x'", "language": "js"});
        source[more.0] = more.1.into();
        json!({ "source": source })
    };
    let entry = |more: (&str, &str)| {
        let mut entry = json!({"resolvedUrl": "https://ga.jspm.io/npm:preact@10.28.3/x.js"});
        entry[more.0] = more.1.into();
        json!({"moduleManifest": {"preact": entry}})
    };
    let bound = |on: Value| {
        let button = json!({"type": "element", "tag": "button", "props": {"onClick": on}});
        json!({"root": {"type": "element", "tag": "div", "children": [button]}})
    };
    for (more, place, meant) in [
        (json!({"capabilites": {}}), "/capabilites", Some("capabilities")),
        (
            json!({"capabilities": {"executionprofile": "sandbox-worker"}}),
            "/capabilities/executionprofile",
            Some("executionProfile"),
        ),
        (
            json!({"capabilities": {"maxExecutionsMs": 5}}),
            "/capabilities/maxExecutionsMs",
            Some("maxExecutionMs"),
        ),
        (json!({"capabilities": {"gpu": true}}), "/capabilities/gpu", None),
        (
            json!({"state": {"initial": {}, "transition": {}}}),
            "/state/transition",
            Some("transitions"),
        ),
        (
            add(json!({"type": "increment", "path": "n", "bye": 5})),
            "/state/transitions/a~1b/0/bye",
            Some("by"),
        ),
        (
            add(json!({"type": "toggle", "path": "n", "value": 5})),
            "/state/transitions/a~1b/0/value",
            None,
        ),
        (
            add(json!({"type": "set", "path": "n", "value": {"$from": "a", "or": 1}})),
            "/state/transitions/a~1b/0/value/or",
            None,
        ),
        (source(("exportname", "App")), "/source/exportname", Some("exportName")),
        (source(("export", "App")), "/source/export", None),
        (entry(("integrety", "sha256-x")), "/moduleManifest/preact/integrety", Some("integrity")),
        (
            bound(json!({"type": "a", "paylod": {}})),
            "/root/children/0/props/onClick/paylod",
            Some("payload"),
        ),
    ] {
        let plan = plan(more);
        let told = remarks(&plan);
        let [(at, why)] = told.as_slice() else { panic!("{plan}: {told:?}") };
        assert_eq!(at, place);
        match meant {
            Some(meant) => assert!(why.ends_with(&format!("did you mean `{meant}`?")), "{why}"),
            None => assert!(why.contains("; it has "), "{why}"),
        }
    }
}

/// The control: every member that there is, and what is open.
#[test]
fn a_member_that_somebody_reads_is_not_named() {
    let whole = json!({
        "metadata": {"team": "x"}, "ext": {"own": 1}, "imports": [],
        "capabilities": {"domWrite": true, "timers": false, "networkHosts": [], "allowedModules": [],
            "storage": [], "executionProfile": "standard", "maxImports": 1,
            "maxComponentInvocations": 1, "maxExecutionMs": 10},
        "state": {"initial": {"own": {"type": "x"}}, "transitions": {"a": [
            {"type": "set", "path": "n", "value": {"any": 1}},
            {"type": "push", "path": "l", "value": {"$from": "n"}},
            {"type": "increment", "path": "n", "by": 2}, {"type": "toggle", "path": "n"}]}},
        "source": {"code": "export default 'x'", "language": "js", "exportName": "default",
            "runtime": "renderify"},
        "moduleManifest": {"preact": {"resolvedUrl": "https://ga.jspm.io/npm:preact@10.28.3/x.js",
            "integrity": "sha256-x", "version": "1", "signer": "x", "type": "script"}},
        "root": {"type": "element", "tag": "button",
            "props": {"onClick": {"type": "a", "payload": {"own": 1}}, "style": {"color": "red"}}},
    });
    assert_eq!(remarks(&plan(whole)), []);
}

#[test]
fn a_member_that_is_missing_and_misspelt_is_named() {
    let action = |action: Value| json!({"state": {"initial": {}, "transitions": {"a": [action]}}});
    for (more, place, part) in [
        (json!({"state": {"inital": {}}}), "/state/initial", "`initial`"),
        (json!({"state": {}}), "/state/initial", "an object is expected"),
        (json!({"root": null}), "/root", "a node"),
        (
            action(json!({"type": "set", "path": "x", "vlaue": 1})),
            "/state/transitions/a/0/value",
            "`value`",
        ),
        (
            action(json!({"type": "set", "pth": "x", "value": 1})),
            "/state/transitions/a/0/path",
            "`path`",
        ),
        (
            action(json!({"typ": "set", "path": "x", "value": 1})),
            "/state/transitions/a/0/type",
            "`type`",
        ),
        (json!({"source": {"cod": "1", "language": "js"}}), "/source/code", "`code`"),
        (json!({"source": {"code": "1", "lang": "js"}}), "/source/language", "js, jsx, ts or tsx"),
        (json!({"source": {"code": "1", "langauge": "js"}}), "/source/language", "`language`"),
        (
            json!({"source": {"code": "1", "language": "js", "runtime": "react"}}),
            "/source/runtime",
            "code for React runs as preact",
        ),
        (
            json!({"moduleManifest": {"a": {"resolvedURL": "x"}}}),
            "/moduleManifest/a/resolvedUrl",
            "`resolvedUrl`",
        ),
        (json!({"root": {"type": "element", "tag": "p", "childern": []}}), "/root", "`children`"),
        (
            json!({"root": {"type": "element", "tag": "p", "onClick": "a"}}),
            "/root",
            "goes into its props",
        ),
    ] {
        let plan = plan(more);
        let error = parse(&plan.to_string(), &Limits::default()).unwrap_err();
        assert_eq!((error.code(), error.pointer()), ("plan_shape_invalid", place), "{plan}");
        assert!(error.report().why.contains(part), "{plan}: {}", error.report().why);
    }
}

/// The failure: a plan with forty elements in each other had a reason for each of the lower ones, each with a longer pointer.
#[test]
fn a_branch_that_is_too_deep_is_one_reason() {
    let deep = |levels: usize| {
        let leaf = json!({"type": "text", "value": "x"});
        (0..levels)
            .fold(leaf, |inner, _| json!({"type": "element", "tag": "div", "children": [inner]}))
    };
    let profile = Profile::named(ProfileName::Trusted);
    let issues = |root: Value| {
        let plan = parse(&plan(json!({ "root": root })).to_string(), &Limits::default()).unwrap();
        let report = check(&plan, &profile);
        assert!(report.issue_count >= report.issues.len(), "all are counted");
        report.issues
    };
    assert_eq!(issues(deep(profile.max_tree_depth)), [], "the control");
    for levels in [profile.max_tree_depth + 1, 40] {
        let found = issues(deep(levels));
        assert_eq!(found.len(), 1, "{levels}: {found:?}");
        assert_eq!(found[0].code, "plan_too_deep");
    }
    let two = json!({"type": "element", "tag": "div", "children": [deep(40), deep(40)]});
    assert_eq!(issues(two).len(), 2, "one for each branch");
}

#[test]
fn a_handler_that_was_a_function_is_left_out_with_a_remark() {
    let shown = |name: &str, value: Value| {
        let root = json!({"type": "element", "tag": "button", "props": {name: value}});
        let plan = parse(&plan(json!({ "root": root })).to_string(), &Limits::default()).unwrap();
        let profile = Profile::named(ProfileName::Trusted);
        let html = render(&plan, &profile, &Context::new("s").unwrap())?;
        let notes: Vec<_> = html.notes.iter().map(|it| (it.code, it.pointer.clone())).collect();
        Ok::<_, glasshouse_plan::Error>((html.markup, notes))
    };
    for name in ["onClick", "onclick", "ONCLICK", "onWhatever"] {
        let (markup, notes) = shown(name, json!({"$function": true})).unwrap();
        assert_eq!(markup, "<button></button>", "{name}");
        assert_eq!(notes, [("plan_handler_lost", format!("/root/props/{name}"))]);
    }
    // The controls: a binding, what is none, and an attribute.
    assert_eq!(shown("onClick", json!("add")).unwrap().1, []);
    assert!(shown("onClick", json!({"function": true})).is_err());
    assert_eq!(shown("title", json!("x")).unwrap().1, []);
}
