//! Whole documents: limits while reading, reports, and one answer for check and render.

use glasshouse_plan::{
    Context, Limits, MAX_ISSUES, Node, Profile, ProfileName, check, check_text, codes, parse,
    render,
};
use serde_json::{Value, json};

fn with_root(root: Value) -> String {
    json!({"specVersion": "runtime-plan/v1", "id": "d", "version": 1, "root": root}).to_string()
}

fn issues(text: &str, name: ProfileName) -> Vec<(String, String)> {
    let report = check_text(text, &Limits::default(), &Profile::named(name));
    assert_eq!(report.safe, report.issues.is_empty());
    report.issues.into_iter().map(|issue| (issue.code.to_owned(), issue.pointer)).collect()
}

#[track_caller]
fn check_root(root: Value, want: &[(&str, &str)]) {
    let got = issues(&with_root(root), ProfileName::Strict);
    let got: Vec<_> = got.iter().map(|(code, at)| (code.as_str(), at.as_str())).collect();
    assert_eq!(got, want);
}

fn element(tag: &str, children: Vec<Value>) -> Value {
    json!({"type": "element", "tag": tag, "children": children})
}

fn text(value: &str) -> Value {
    json!({"type": "text", "value": value})
}

#[test]
fn a_hundred_thousand_levels_end_in_an_error() {
    let node = r#"{"type":"element","tag":"div","children":["#;
    let deep = format!(
        r#"{{"id":"d","version":1,"root":{}{}}}"#,
        node.repeat(100_000),
        "]}".repeat(100_000)
    );
    let limits = Limits { bytes: usize::MAX, depth: usize::MAX, ..Limits::default() };
    assert_eq!(parse(&deep, &limits).unwrap_err().code(), "plan_too_large");
    let deep = format!(
        r#"{{"id":"d","version":1,"root":{{"type":"text","value":""}},"metadata":{{"x":{}{}}}}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    assert_eq!(parse(&deep, &limits).unwrap_err().code(), "plan_too_deep");
    let deep =
        format!(r#"{{"id":"d","version":1,"root":{}{}}}"#, node.repeat(2_000), "]}".repeat(2_000));
    assert_eq!(parse(&deep, &limits).unwrap_err().code(), "plan_too_deep");
}

#[test]
fn a_text_that_is_no_plan_is_one_issue() {
    let one = |code: &str, at: &str| vec![(code.to_owned(), at.to_owned())];
    for (text, want) in [
        ("{", one("plan_json_invalid", "")),
        ("[]", one("plan_shape_invalid", "")),
        (r#"{"id":"x","id":"y"}"#, one("plan_key_duplicate", "")),
        (r#"{"id":"x","version":1}"#, one("plan_shape_invalid", "/root")),
        (
            r#"{"id":"x","version":1.5,"root":{"type":"text","value":""}}"#,
            one("plan_shape_invalid", "/version"),
        ),
        (
            r#"{"id":"x","version":1,"root":{"type":"element","tag":"p","children":[{"type":"b"}]}}"#,
            one("plan_shape_invalid", "/root/children/0/type"),
        ),
    ] {
        assert_eq!(issues(text, ProfileName::Relaxed), want, "{text}");
    }
}

#[test]
fn a_hostile_plan_gives_a_bounded_report() {
    let children = vec![json!({"type": "element", "tag": "script"}); 40_000];
    let profile = Profile { max_node_count: usize::MAX, ..Profile::named(ProfileName::Relaxed) };
    let report = check_text(&with_root(element("div", children)), &Limits::default(), &profile);
    assert_eq!((report.issues.len(), report.issue_count), (MAX_ISSUES, 40_000));
    assert!(serde_json::to_string(&report).unwrap().len() < 20_000);
    let deep = (0..60).fold(text("x"), |node, _| element("div", vec![node]));
    let report =
        check_text(&with_root(deep), &Limits::default(), &Profile::named(ProfileName::Relaxed));
    assert_eq!(report.issue_count, 60 - 24, "one issue for each node that is too deep");
}

#[test]
fn the_report_has_the_shape_of_the_contract() {
    let report = check_text(
        &with_root(json!({"type": "element", "tag": "embed"})),
        &Limits::default(),
        &Profile::named(ProfileName::Strict),
    );
    assert_eq!(
        serde_json::to_value(&report).unwrap(),
        json!({"safe": false, "issue_count": 1, "issues": [{
            "code": "plan_tag_denied", "pointer": "/root",
            "message": "the element \"embed\" is not shown",
            "fix": "use an element that the documentation lists"}]})
    );
}

#[test]
fn tags_are_not_trimmed_into_other_tags() {
    check_root(json!({"type": "element", "tag": " script "}), &[("plan_tag_denied", "/root")]);
    check_root(json!({"type": "element", "tag": "not a tag!"}), &[("plan_tag_denied", "/root")]);
}

#[test]
fn nesting_that_a_parser_would_change_is_refused() {
    let bad = |root: Value, at: &str| check_root(root, &[("plan_nesting_invalid", at)]);
    bad(element("p", vec![element("div", vec![])]), "/root/children/0");
    bad(
        element("p", vec![element("b", vec![element("ul", vec![])])]),
        "/root/children/0/children/0",
    );
    bad(element("tr", vec![]), "/root");
    bad(element("table", vec![text("x")]), "/root/children/0");
    bad(element("div", vec![element("li", vec![])]), "/root/children/0");
    bad(element("br", vec![text("x")]), "/root/children/0");
    bad(element("option", vec![]), "/root");
    bad(
        element("ul", vec![element("li", vec![element("li", vec![])])]),
        "/root/children/0/children/0",
    );
    for (outer, inner) in
        [("a", "a"), ("button", "a"), ("form", "form"), ("h1", "h2"), ("label", "label")]
    {
        bad(
            element(outer, vec![element("span", vec![element(inner, vec![])])]),
            "/root/children/0/children/0",
        );
    }
    check_root(
        element("textarea", vec![element("b", vec![])]),
        &[("plan_nesting_invalid", "/root/children/0")],
    );
    // Legal neighbours of the above.
    let row = element("tr", vec![element("td", vec![element("p", vec![])])]);
    check_root(element("table", vec![text(" \n"), element("tbody", vec![row])]), &[]);
    check_root(element("p", vec![element("button", vec![element("div", vec![])])]), &[]);
    check_root(
        element("dl", vec![element("div", vec![element("dt", vec![]), element("dd", vec![])])]),
        &[],
    );
}

#[test]
fn what_is_not_built_is_refused_and_nothing_is_printed() {
    let base = json!({"specVersion": "runtime-plan/v1", "id": "d", "version": 1,
        "root": {"type": "text", "value": "raw"}, "ext": {"fallback": "Nothing to see."}});
    for (path, value, code) in [
        ("source", json!({"code": "export default 1", "language": "js"}), "plan_code_unsupported"),
        ("root", json!({"type": "component", "module": "npm:x"}), "plan_unsafe"),
        ("capabilities", json!({"executionProfile": "isolated-vm"}), "plan_lane_unavailable"),
        ("ext", json!({"requires": ["form/1"], "fallback": "Nothing to see."}), "plan_unsafe"),
        ("specVersion", json!("runtime-plan/v2"), "plan_unsafe"),
    ] {
        let mut plan = base.clone();
        plan[path] = value;
        let plan = parse(&plan.to_string(), &Limits::default()).unwrap();
        let trusted = Profile::named(ProfileName::Trusted);
        let error = render(&plan, &trusted, &Context::new("s").unwrap()).unwrap_err();
        assert_eq!((error.code(), error.exit_status()), (code, 3), "{path}");
        assert_eq!(error.report().context["fallback"], "Nothing to see.");
        assert!(!error.to_string().contains("raw"));
    }
    // A component that is not run keeps its place for its children.
    let mut plan = base.clone();
    plan["root"] = json!({"type": "component", "module": "/x.js",
        "children": [{"type": "text", "value": "inner"}]});
    let plan = parse(&plan.to_string(), &Limits::default()).unwrap();
    let html = render(&plan, &Profile::named(ProfileName::Strict), &Context::new("s").unwrap());
    let html = html.unwrap();
    assert_eq!(html.markup, "<div data-glasshouse-missing-module=\"/x.js\">inner</div>");
    assert_eq!(html.notes[0].code, "plan_component_unresolved");
    // Extensions that are merely used leave the plain tree.
    let mut plan = base;
    plan["ext"] = json!({"uses": ["each/1"]});
    plan["root"] = json!({"type": "element", "tag": "p", "props": {"$if": {"$get": "x"}}});
    let plan = parse(&plan.to_string(), &Limits::default()).unwrap();
    let html = render(&plan, &Profile::named(ProfileName::Strict), &Context::new("s").unwrap());
    assert_eq!(html.unwrap().markup, "<p></p>");
}

#[test]
fn check_and_render_agree_and_name_what_they_leave_out() {
    let root = json!({"type": "element", "tag": "p", "props": {
        "once": true, "title": {"a": 1}, "style": "color: red; position: fixed", "href2": "x"},
        "children": [{"type": "text", "value": "{{state.n + 1}}"}]});
    let plan = parse(&with_root(root), &Limits::default()).unwrap();
    let strict = Profile::named(ProfileName::Strict);
    let report = check(&plan, &strict);
    assert!(report.safe);
    let notes: Vec<&str> = report.notes.iter().map(|note| note.pointer.as_str()).collect();
    let props = ["href2", "once", "style", "title"].map(|name| format!("/root/props/{name}"));
    assert_eq!(notes[..4], props);
    assert_eq!(notes[4..], ["/root/children/0/value"]);
    let html = render(&plan, &strict, &Context::new("s").unwrap()).unwrap();
    assert_eq!(html.markup, "<p style=\"color:red;\"></p>");
}

#[test]
fn the_typed_view_gives_back_what_the_text_said() {
    let root = element(
        "div",
        vec![
            text("a"),
            json!({"type": "component", "module": "m", "children": [text("b")]}),
            json!({"type": "component", "module": "m", "exportName": "X"}),
        ],
    );
    let source = with_root(root);
    let plan = parse(&source, &Limits::default()).unwrap();
    let again: Value = serde_json::to_value(&plan).unwrap();
    assert_eq!(again, serde_json::from_str::<Value>(&source).unwrap());
    let walk: Vec<(usize, String)> =
        plan.walk().map(|node| (node.depth(), node.pointer())).collect();
    assert_eq!(walk.len(), plan.node_count());
    assert_eq!(walk[3], (2, "/root/children/1/children/0".to_owned()));
    let Node::Element(element) = plan.root() else { panic!("the root is an element") };
    let exports: Vec<&str> = element
        .children()
        .filter_map(|node| match node {
            Node::Component(component) => Some(component.export()),
            _ => None,
        })
        .collect();
    assert_eq!(exports, ["default", "X"]);
    assert_eq!(plan.component_modules(), ["m"]);
}

#[test]
fn every_code_has_a_page() {
    let pages = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors");
    for code in codes::ALL {
        let page = std::fs::read_to_string(pages.join(format!("{}.md", code.name)));
        let page = page.unwrap_or_else(|_| panic!("{} has no page", code.name));
        assert!(page.starts_with(&format!("# {}\n", code.name)), "{}", code.name);
        assert!(page.lines().count() >= 5, "{}", code.name);
        assert!(!code.fix.is_empty());
    }
}

#[test]
fn the_example_of_the_documentation_is_shown_by_every_profile() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/plans.md");
    let page = std::fs::read_to_string(page).unwrap();
    let example = page.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let plan = parse(example, &Limits::default()).unwrap();
    for name in ProfileName::ALL {
        let html = render(&plan, &Profile::named(name), &Context::new("s").unwrap()).unwrap();
        assert_eq!(
            html.markup,
            "<section><h1>Count: 0</h1><button data-glasshouse-event-click=\"evt_1\">Add</button></section>"
        );
    }
}

/// The failure: `import 'lodash'` in a source was told twice, and once without its name.
/// Now: each module is named, and what the source imports is told once, with the source.
#[test]
fn a_module_without_an_entry_is_told_once_and_by_name() {
    let told = |more: Value| {
        let mut plan = json!({"specVersion": "runtime-plan/v1", "id": "p", "version": 1,
            "root": {"type": "text", "value": "x"}});
        for (key, value) in more.as_object().unwrap() {
            plan[key] = value.clone();
        }
        let profile = Profile::named(ProfileName::Trusted);
        let report = check_text(&plan.to_string(), &Limits::default(), &profile);
        let issues = report.issues.into_iter().filter(|it| it.code == "plan_manifest_missing");
        issues.map(|issue| (issue.pointer, issue.message)).collect::<Vec<_>>()
    };
    let code = "import a from 'lodash'; export default a";
    let source = json!({"source": {"language": "js", "code": code}});
    for (more, pointer) in
        [(source, "/source/code"), (json!({"imports": ["lodash"]}), "/imports/0")]
    {
        let told = told(more);
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0].0, pointer);
        assert!(told[0].1.contains("lodash"), "{told:?}");
    }
}
