//! Changes to documents, and plans that arrive as lines of them.

use glasshouse_plan::change::{Change, Pointer, apply, diff};
use glasshouse_plan::patch::{Content, End, Patch, Screen};
use glasshouse_plan::stream::{Lines, LinesOutcome};
use glasshouse_plan::{Context, Limits, Profile, ProfileName, parse, render};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::properties::{node, scalar};
use crate::streams::profile;

/// Changes a document; the text of each is one JSON object.
fn change(document: &Value, changes: &[Value]) -> Result<Value, (&'static str, String)> {
    let mut document = document.clone();
    for change in changes {
        let done = Change::read(&change.to_string()).and_then(|it| apply(&mut document, &it));
        done.map_err(|error| (error.code(), error.pointer().to_owned()))?;
    }
    Ok(document)
}

fn op(op: &str, path: &str, value: Value) -> Value {
    json!({"op": op, "path": path, "value": value})
}

fn moved(op: &str, from: &str, path: &str) -> Value {
    json!({"op": op, "from": from, "path": path})
}

#[test]
fn each_operation_does_what_the_rfc_says() {
    let invalid = |at: &str| Err(("plan_change_invalid", at.to_owned()));
    for (document, changes, want) in [
        (
            json!({"foo": "bar"}),
            vec![op("add", "/baz", json!("qux"))],
            Ok(json!({"baz": "qux", "foo": "bar"})),
        ),
        (
            json!({"foo": [1, 2]}),
            vec![op("add", "/foo/1", json!(9))],
            Ok(json!({"foo": [1, 9, 2]})),
        ),
        (json!({"foo": [1]}), vec![op("add", "/foo/-", json!([2]))], Ok(json!({"foo": [1, [2]]}))),
        (json!({"a": 1, "b": 2}), vec![op("remove", "/a", Value::Null)], Ok(json!({"b": 2}))),
        (
            json!({"a": [1, 2, 3]}),
            vec![op("remove", "/a/1", Value::Null)],
            Ok(json!({"a": [1, 3]})),
        ),
        (json!({"a": 1}), vec![op("replace", "/a", json!(2))], Ok(json!({"a": 2}))),
        (
            json!({"a": {"x": 1}, "b": {}}),
            vec![moved("move", "/a/x", "/b/y")],
            Ok(json!({"a": {}, "b": {"y": 1}})),
        ),
        (
            json!({"a": [0, 1, 2, 3]}),
            vec![moved("move", "/a/1", "/a/3")],
            Ok(json!({"a": [0, 2, 3, 1]})),
        ),
        (
            json!({"a": {"x": 1}}),
            vec![moved("copy", "/a", "/b")],
            Ok(json!({"a": {"x": 1}, "b": {"x": 1}})),
        ),
        (
            json!({"a": ["x", 2]}),
            vec![op("test", "/a/0", json!("x")), op("test", "/a/1", json!(2.0))],
            Ok(json!({"a": ["x", 2]})),
        ),
        (json!({"a": "x"}), vec![op("test", "/a", json!("y"))], invalid("/a")),
        (
            json!({"foo": 1}),
            vec![op("add", "/child", json!({"g": {}}))],
            Ok(json!({"foo": 1, "child": {"g": {}}})),
        ),
        (json!({"foo": 1}), vec![op("add", "", json!([1]))], Ok(json!([1]))),
        (json!({"a": null}), vec![op("replace", "/a", json!(true))], Ok(json!({"a": true}))),
        // Parents must be there, indexes must fit, nothing moves into itself.
        (json!({}), vec![op("add", "/todos/-", json!(1))], invalid("/todos/-")),
        (json!({}), vec![op("replace", "/steps", json!(1))], invalid("/steps")),
        (json!({"a": [1]}), vec![op("add", "/a/2", json!(1))], invalid("/a/2")),
        (json!({"a": [1]}), vec![op("add", "/a/01", json!(1))], invalid("/a/01")),
        (json!({"a": 1}), vec![op("add", "/a/b", json!(1))], invalid("/a/b")),
        (json!({"a": {}}), vec![moved("move", "/a", "/a/b")], invalid("/a/b")),
        (json!({"a": 1}), vec![moved("move", "/a", "/x/y")], invalid("/x/y")),
        // The one that makes parents.
        (json!({}), vec![op("upsert", "/todos/-", json!(1))], Ok(json!({"todos": [1]}))),
        (json!({}), vec![op("upsert", "/a/b/0/c", json!(1))], Ok(json!({"a": {"b": [{"c": 1}]}}))),
        (json!({"a": [1, 2]}), vec![op("upsert", "/a/0", json!(9))], Ok(json!({"a": [9, 2]}))),
        (json!({"a": 1}), vec![op("upsert", "/a", json!(2))], Ok(json!({"a": 2}))),
        (json!({"a": 1}), vec![op("upsert", "/a/b", json!(2))], invalid("/a/b")),
    ] {
        assert_eq!(change(&document, &changes), want, "{document} {changes:?}");
    }
}

#[test]
fn a10_pointers_escape_both_ways() {
    for key in ["a/b", "m~n", "~1", "~0", "", " ", "é", "a~1b", "0", "-", "~~//"] {
        let pointer = Pointer::default().join("x").join(key);
        assert_eq!(Pointer::parse(&pointer.to_string()).unwrap(), pointer, "{key:?}");
        let (from, to) = (json!({key: 1, "k": {key: [1]}}), json!({key: 2, "k": {key: [1, 2]}}));
        let mut document = from.clone();
        for change in diff(&from, &to) {
            let again = Change::read(&change.to_value().to_string()).unwrap();
            assert_eq!(again, change);
            apply(&mut document, &again).unwrap();
        }
        assert_eq!(document, to, "{key:?}");
    }
    for (text, tokens) in
        [("", vec![]), ("/", vec![""]), ("/a~1b/~01", vec!["a/b", "~1"]), ("/m~0n", vec!["m~n"])]
    {
        assert_eq!(Pointer::parse(text).unwrap().tokens(), tokens, "{text}");
    }
    for text in ["a", "/~", "/~2", "/a~", "#/a"] {
        assert_eq!(Pointer::parse(text).unwrap_err().code(), "plan_line_invalid", "{text}");
    }
}

#[test]
fn e11_no_pointer_reaches_a_prototype() {
    for path in [
        "/__proto__/x",
        "/state/constructor/prototype",
        "/a/prototype",
        "/a/~0__proto__~0/..",
        "/a/%5f%5fproto__",
        "/a/ __proto__ ",
        "/a/%255f_proto__",
    ] {
        let change = Change::read(&op("add", path, json!("yes")).to_string());
        // A name that only looks like one of the three stays usable.
        let want = if path.contains("~0") { "ok" } else { "plan_path_unsafe" };
        assert_eq!(change.map_or_else(|error| error.code(), |_| "ok"), want, "{path}");
    }
    let document = change(&json!({}), &[op("add", "/toString", json!(1))]).unwrap();
    assert_eq!(document, json!({"toString": 1}));
}

fn any_value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map("[a-c/~]{0,2}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn differences_lead_there_and_undoing_leads_back(from in any_value(), to in any_value()) {
        let mut document = from.clone();
        let mut undo = Vec::new();
        for change in diff(&from, &to) {
            undo.push(apply(&mut document, &change).unwrap());
        }
        prop_assert_eq!(&document, &to);
        for change in undo.iter().rev().flatten() {
            apply(&mut document, change).unwrap();
        }
        prop_assert_eq!(document, from);
    }

    #[test]
    fn lines_show_what_the_document_holds(
        root in node(), state in scalar(), ops in prop::collection::vec(any_op(), 0..8), width in 1..50usize,
    ) {
        let first = json!({"op": "add", "path": "/root", "value": root});
        let state = json!({"op": "upsert", "path": "/state/initial/evil", "value": state});
        let lines: Vec<String> = [first, state].iter().chain(&ops).map(Value::to_string).collect();
        let text = lines.join("\n");
        let (outcome, markup) = send(text.as_bytes().chunks(width), &profile());
        let (again, same) = send([text.as_bytes()], &profile());
        prop_assert_eq!(&markup, &same);
        prop_assert_eq!(&outcome.left_out, &again.left_out);
        match &outcome.plan {
            Some(plan) => {
                let html = render(plan, &profile(), &Context::new("s").unwrap()).unwrap();
                prop_assert_eq!(markup, html.markup, "{}", text);
            }
            None => prop_assert!(outcome.end != End::Refused || markup.is_empty(), "{}", text),
        }
    }
}

fn any_path() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "/root",
        "/root/children/0",
        "/root/children/1",
        "/root/children/-",
        "/root/props",
        "/root/props/class",
        "/root/children",
        "/root/children/0/children/0",
        "/root/tag",
        "/root/children/0/value",
        "/root/children/0/props/title",
        "/state",
        "/state/initial/evil",
        "/root/children/0/type",
        "/id",
        "/capabilities",
        "",
        "/root/value",
    ])
    .prop_map(str::to_owned)
}

fn any_op() -> impl Strategy<Value = Value> {
    let value = prop_oneof![
        3 => node(),
        2 => scalar(),
        1 => Just(json!({})),
        1 => Just(json!([])),
        1 => Just(json!("div")),
    ];
    let name =
        prop::sample::select(vec!["add", "remove", "replace", "move", "copy", "test", "upsert"]);
    (name, any_path(), any_path(), value).prop_map(
        |(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}),
    )
}

fn send<'p>(
    pieces: impl IntoIterator<Item = &'p [u8]>,
    profile: &Profile,
) -> (LinesOutcome, String) {
    let context = Context::new("s").unwrap();
    let mut lines = Lines::new(1, profile, &context, "plan");
    let mut screen = Screen::default();
    for piece in pieces {
        lines.push(piece);
        if let Some(frame) = lines.frame() {
            screen.accept(&frame).unwrap();
        }
    }
    let outcome = lines.finish();
    screen.accept(&outcome.frame).unwrap();
    assert_eq!(screen.end(), Some(outcome.end));
    (outcome, screen.view().markup())
}

const LIST: &str =
    r#"{"op":"add","path":"/root","value":{"type":"element","tag":"ul","children":[]}}"#;

fn item(text: &str) -> String {
    format!(
        r#"{{"op":"add","path":"/root/children/-","value":{{"type":"element","tag":"li","children":[{{"type":"text","value":"{text}"}}]}}}}"#
    )
}

#[test]
fn a9_a_missing_parent_is_named_and_the_stream_goes_on() {
    let text = [
        LIST,
        r#"{"op":"add","path":"/root/children/7/children/-","value":{"type":"text","value":"x"}}"#,
        r#"{"op":"replace","path":"/steps","value":1}"#,
        &item("one"),
        r#"{"op":"upsert","path":"/state/initial/todos/-","value":"a"}"#,
    ]
    .join("\n");
    let (outcome, markup) = send(text.as_bytes().chunks(9), &profile());
    assert_eq!(outcome.end, End::Complete, "{outcome:?}");
    assert_eq!(markup, "<ul><li>one</li></ul>");
    let left_out: Vec<_> = outcome
        .left_out
        .iter()
        .map(|it| (it.line, it.issue.code, it.issue.pointer.as_str()))
        .collect();
    let want = [
        (2, "plan_change_invalid", "/root/children/7/children/-"),
        (3, "plan_change_invalid", "/steps"),
    ];
    assert_eq!(left_out, want);
    let state = outcome.plan.unwrap().initial_state().unwrap().to_value();
    assert_eq!(state, json!({"todos": ["a"]}));
}

#[test]
fn a11_a_malformed_line_is_named_and_later_lines_work() {
    let cut = &item("lost")[..40];
    let two = format!("{}{}", item("a"), item("b"));
    let text =
        [LIST, cut, &item("one"), "", "not json", &two, &item("two"), r#"{"op":"fly","path":""}"#]
            .join("\n");
    let (outcome, markup) = send(text.as_bytes().chunks(7), &profile());
    assert_eq!(markup, "<ul><li>one</li><li>two</li></ul>");
    assert_eq!(outcome.end, End::Complete);
    let left_out: Vec<_> =
        outcome.left_out.iter().map(|it| (it.line, it.bytes, it.issue.code)).collect();
    // The length includes the line break, where there is one.
    let want = [
        (2, cut.len() + 1, "plan_line_invalid"),
        (5, 9, "plan_line_invalid"),
        (6, two.len() + 1, "plan_line_invalid"),
        (8, 22, "plan_line_invalid"),
    ];
    assert_eq!(left_out, want);
}

/// A stream that broke off inside its last line ended as complete, as if nothing were missing.
#[test]
fn a12_lines_that_break_off_are_incomplete() {
    let check = |text: &str, end: End, markup: &str| {
        for width in [1, 5] {
            let (outcome, shown) = send(text.as_bytes().chunks(width), &profile());
            assert_eq!((outcome.end, shown.as_str()), (end, markup), "{text}");
            assert_eq!(outcome.plan.is_some(), end == End::Complete);
        }
    };
    let list = "<ul></ul>";
    check(LIST, End::Complete, list);
    check(&format!("{LIST}\n"), End::Complete, list);
    check(&format!("{LIST}\n{}", &item("x")[..50]), End::Incomplete, list);
    check(&format!("{LIST}\n{}\n", &item("x")[..50]), End::Complete, list);
    check(&format!("{LIST}\n{}", item("x")), End::Complete, "<ul><li>x</li></ul>");
    check(&format!("\u{feff}{LIST}"), End::Complete, list);
}

#[test]
fn a_line_that_is_refused_shows_nothing() {
    for bad in [
        r#"{"op":"add","path":"/root/children/-","value":{"type":"element","tag":"script"}}"#,
        r#"{"op":"add","path":"/root/children/-","value":{"type":"element","tag":"dt"}}"#,
        r#"{"op":"upsert","path":"/root/children/0/props/onclick","value":"x()"}"#,
        r#"{"op":"add","path":"/root/children/0/props","value":{"srcdoc":"x"}}"#,
        r#"{"op":"replace","path":"/root/tag","value":"table"}"#,
        r#"{"op":"remove","path":"/root/tag"}"#,
        r#"{"op":"replace","path":"/root/children","value":5}"#,
        r#"{"op":"replace","path":"/root/children/0/children/0/type","value":"component"}"#,
    ] {
        let text = [LIST, &item("one"), bad, &item("two")].join("\n");
        let (outcome, markup) = send(text.as_bytes().chunks(11), &profile_without_handlers());
        assert_eq!(markup, "<ul><li>one</li><li>two</li></ul>", "{bad}");
        assert_eq!((outcome.end, outcome.left_out_count), (End::Complete, 1), "{bad}");
    }
}

fn profile_without_handlers() -> Profile {
    Profile::named(ProfileName::Balanced)
}

#[test]
fn a_move_among_siblings_keeps_the_node() {
    let text = [
        LIST,
        &item("a"),
        &item("b"),
        &item("c"),
        r#"{"op":"move","from":"/root/children/0","path":"/root/children/2"}"#,
    ]
    .join("\n");
    let context = Context::new("s").unwrap();
    let profile = profile();
    let mut lines = Lines::new(1, &profile, &context, "plan");
    lines.push(text.as_bytes());
    let _ = lines.frame();
    let outcome = lines.finish();
    assert_eq!(outcome.frame.patches, [Patch::Mov { id: 1, before: None }]);
}

#[test]
fn a_move_that_is_refused_leaves_everything_where_it_was() {
    let nested = r#"{"op":"add","path":"/root/children/-","value":{"type":"element","tag":"li","props":{"title":"t"},"children":[{"type":"text","value":"null"}]}}"#;
    for (bad, shown) in [
        (
            r#"{"op":"move","from":"/root/children/0/children/0/value","path":"/root/children"}"#,
            "<ul><li title=\"t\">null</li></ul>",
        ),
        (
            r#"{"op":"move","from":"/root/children/0/props","path":"/root/children/0"}"#,
            "<ul><li title=\"t\">null</li></ul>",
        ),
        (
            r#"{"op":"move","from":"/root/children/0/children/0","path":"/root/tag"}"#,
            "<ul><li title=\"t\">null</li></ul>",
        ),
    ] {
        let (outcome, markup) = send([[LIST, nested, bad].join("\n").as_bytes()], &profile());
        assert_eq!((markup.as_str(), outcome.left_out_count), (shown, 1), "{bad}");
        let plan = outcome.plan.unwrap();
        assert_eq!(render(&plan, &profile(), &Context::new("s").unwrap()).unwrap().markup, shown);
    }
    let good = r#"{"op":"move","from":"/root/children/0/props/title","path":"/root/props"}"#;
    let good = good.replace("/root/props", "/root/children/0/props/class");
    let (_, markup) = send([[LIST, nested, &good].join("\n").as_bytes()], &profile());
    assert_eq!(markup, "<ul><li class=\"t\">null</li></ul>");
}

#[test]
fn a5_templates_wait_for_the_state_of_later_lines() {
    let text = [
        LIST.to_owned(),
        item("n is {{state.n}}."),
        r#"{"op":"upsert","path":"/state/initial/n","value":1}"#.to_owned(),
        r#"{"op":"replace","path":"/state/initial/n","value":12}"#.to_owned(),
    ];
    let context = Context::new("s").unwrap();
    let profile = profile();
    let mut lines = Lines::new(1, &profile, &context, "plan");
    let mut screen = Screen::default();
    for (line, want) in text.iter().zip(["", "n is ", "n is 1.", "n is 12."]) {
        lines.push(format!("{line}\n").as_bytes());
        let frame = lines.frame().unwrap();
        screen.accept(&frame).unwrap();
        let shown = if want.is_empty() {
            "<ul></ul>".to_owned()
        } else {
            format!("<ul><li>{want}</li></ul>")
        };
        assert_eq!(screen.view().markup(), shown);
        let inserted = frame
            .patches
            .iter()
            .filter(|it| matches!(it, Patch::Ins { node: Content::Text(_), .. }));
        assert!(inserted.count() <= 1);
    }
    assert!(parse(&lines_plan(lines), &Limits::default()).is_ok());
}

fn lines_plan(lines: Lines<'_>) -> String {
    serde_json::to_string(&lines.finish().plan.unwrap()).unwrap()
}
