//! Rendering of ordinary plans, and whole pages.

use glasshouse_plan::state::{Host, State, StateLimits, apply};
use glasshouse_plan::{
    Context, Event, Html, Limits, Profile, ProfileName, parse, render, render_page,
};
use serde_json::{Value, json};

fn show(root: Value) -> Html {
    let plan = json!({"specVersion": "runtime-plan/v1", "id": "d", "version": 1, "root": root,
        "state": {"initial": {"n": 2, "yes": true, "no": false, "id": "x",
                  "to": "https://ga.jspm.io/a", "items": [{"name": "A&B"}]}}});
    let plan = parse(&plan.to_string(), &Limits::default()).unwrap();
    let strict = Profile::named(ProfileName::Strict);
    render(&plan, &strict, &Context::new("s1").unwrap()).unwrap()
}

#[track_caller]
fn check(tag: &str, props: Value, want: &str) {
    let html = show(json!({"type": "element", "tag": tag, "props": props})).markup;
    assert_eq!(html, want);
}

#[test]
fn attributes() {
    check("p", json!({"hidden": "{{state.no}}", "title": "{{state.n}}"}), "<p title=\"2\"></p>");
    check("p", json!({"hidden": "{{state.yes}}"}), "<p hidden></p>");
    check("p", json!({"hidden": "{{state.missing}}"}), "<p></p>");
    check(
        "p",
        json!({"aria-hidden": true, "data-row": 3}),
        "<p aria-hidden=\"true\" data-plan-row=\"3\"></p>",
    );
    check(
        "p",
        json!({"id": "a b", "aria-labelledby": "a {{state.id}}"}),
        "<p aria-labelledby=\"s1-a s1-x\" id=\"s1-a\"></p>",
    );
    check("label", json!({"htmlFor": "f"}), "<label for=\"s1-f\"></label>");
    check("a", json!({"href": "#part"}), "<a href=\"#s1-part\"></a>");
    check(
        "a",
        json!({"href": "{{state.to}}"}),
        "<a href=\"https://ga.jspm.io/a\" rel=\"noopener noreferrer\"></a>",
    );
    check(
        "a",
        json!({"href": "/x y", "rel": "nofollow preload"}),
        "<a href=\"/x%20y\" rel=\"nofollow\"></a>",
    );
    check("form", json!({}), "<form method=\"dialog\"></form>");
    check(
        "input",
        json!({"type": "Checkbox", "checked": true, "maxLength": 3}),
        "<input checked maxlength=\"3\" type=\"checkbox\">",
    );
    check(
        "div",
        json!({"style": {"fontSize": 12, "color": "red"}}),
        "<div style=\"color:red;font-size:12px;\"></div>",
    );
    check("i", json!({"class": "a", "className": "b"}), "<i class=\"a\"></i>");
}

#[test]
fn what_a_parser_drops_is_written_twice() {
    let pre = |text: &str| {
        show(
            json!({"type": "element", "tag": "pre", "children": [{"type": "text", "value": text}]}),
        )
        .markup
    };
    assert_eq!(pre("\na"), "<pre>\n\na</pre>");
    assert_eq!(pre("a\r\n\u{0}"), "<pre>a&#13;\n\u{fffd}</pre>");
    // The place of a component comes between, so nothing is dropped.
    let text = json!({"type": "text", "value": "\na"});
    let component = json!({"type": "component", "module": "/m.js", "children": [text]});
    let html = show(json!({"type": "element", "tag": "pre", "children": [component]}));
    assert!(html.markup.ends_with(">\na</div></pre>"), "{}", html.markup);
    assert!(!html.markup.contains("\n\n"), "{}", html.markup);
}

#[test]
fn events_are_names_not_code() {
    let html = show(json!({"type": "element", "tag": "div", "props": {"onClick": " pick "},
        "children": [{"type": "element", "tag": "button", "props":
            {"onKeyDown": {"type": "key", "payload": {"n": "{{state.n}}", "t": "v{{state.n}}"}}}}]}));
    assert_eq!(
        html.markup,
        "<div data-glasshouse-event-click=\"evt_2\"><button data-glasshouse-event-keydown=\"evt_1\"></button></div>"
    );
    let events = serde_json::to_value(&html.events).unwrap();
    assert_eq!(
        events,
        json!([
        {"id": "evt_2", "dom_event": "click", "event": {"type": "pick"}},
        {"id": "evt_1", "dom_event": "keydown", "event": {"type": "key", "payload": {"n": 2, "t": "v2"}}}])
    );
}

#[test]
fn a_filled_in_address_that_is_refused_leaves_a_note() {
    let plan = json!({"specVersion": "runtime-plan/v1", "id": "d", "version": 1,
        "state": {"initial": {"u": "https://evil.example/x"}},
        "root": {"type": "element", "tag": "a", "props": {"href": "{{state.u}}"}}});
    let plan = parse(&plan.to_string(), &Limits::default()).unwrap();
    let strict = Profile::named(ProfileName::Strict);
    let html = render(&plan, &strict, &Context::new("s").unwrap()).unwrap();
    assert_eq!(html.markup, "<a></a>");
    assert_eq!(
        (html.notes[0].code, html.notes[0].pointer.as_str()),
        ("plan_host_denied", "/root/props/href")
    );
    assert!(html.notes[0].message.contains("evil.example"));
}

#[test]
fn a_step_and_its_view() {
    let text = json!({"specVersion": "runtime-plan/v1", "id": "d", "version": 1,
        "state": {"initial": {"n": 1}, "transitions": {"add": [
            {"type": "increment", "path": "n", "by": {"$from": "x"}}]}},
        "root": {"type": "text", "value": "{{n}} {{event.type}} {{vars.theme}} {{context.userId}}"}});
    assert!(parse(&text.to_string(), &Limits::default()).is_err(), "by is a number");
    let mut text = text;
    text["state"]["transitions"]["add"][0]["by"] = json!(2);
    let plan = parse(&text.to_string(), &Limits::default()).unwrap();
    let limits = StateLimits::default();
    let variables = json!({"theme": "dark"}).as_object().unwrap().clone();
    let host = Host { user_id: "ada", variables: &variables };
    let event = Event::new("add", None).unwrap();
    let state = State::initial(&plan, &limits).unwrap();
    let state = apply(&state, &plan, &event, &host, &limits).unwrap().state;
    let context =
        Context::new("s").unwrap().state(&state).event(&event).user("ada").variables(&variables);
    let strict = Profile::named(ProfileName::Strict);
    let first = render(&plan, &strict, &context).unwrap();
    assert_eq!(first.markup, "3 add dark ada");
    assert_eq!(render(&plan, &strict, &context).unwrap(), first, "equal input, equal bytes");
    assert_eq!(Context::new("1 x").unwrap_err().code(), "plan_surface_invalid");
}

#[test]
fn output_is_bounded() {
    let big = "x".repeat(200_000);
    let many = "{{big}}".repeat(10_000);
    let text = |value: &str| json!({"type": "text", "value": value});
    let raises = |payload: Value| json!({"type": "element", "tag": "b", "props": {"onClick": {"type": "t", "payload": payload}}});
    for (root, want) in [
        (
            json!({"type": "element", "tag": "div", "children": vec![text("{{big}}"); 200]}),
            "plan_output_too_large",
        ),
        (
            json!({"type": "element", "tag": "div", "children": vec![text(&many); 5]}),
            "plan_output_too_large",
        ),
        (
            json!({"type": "element", "tag": "div", "props":
            {"title": many, "class": many, "lang": many, "role": many, "aria-label": many}}),
            "plan_output_too_large",
        ),
        (raises(json!({"list": vec!["{{big}}"; 10_000]})), "plan_output_too_large"),
        (raises(json!({"a": "{{big}}", "b": "{{big}}"})), "plan_state_event_invalid"),
        (
            json!({"type": "element", "tag": "div", "children": vec![raises(json!({"a": "{{big}}"})); 200]}),
            "plan_output_too_large",
        ),
    ] {
        let plan = json!({"specVersion": "runtime-plan/v1", "id": "d", "version": 1,
            "state": {"initial": {"big": big}}, "root": root});
        let plan = parse(&plan.to_string(), &Limits::default()).unwrap();
        let relaxed = Profile::named(ProfileName::Relaxed);
        let error = render(&plan, &relaxed, &Context::new("s").unwrap());
        assert_eq!(error.unwrap_err().code(), want);
    }
}

#[test]
fn a_page_loads_nothing_but_the_images_it_names() {
    let html = show(json!({"type": "element", "tag": "img", "props":
        {"src": "https://cdn.jspm.io/a.png", "alt": "A"}}));
    let page = render_page("</title><script>alert(1)</script>", &html);
    assert!(page.contains("img-src data: https://cdn.jspm.io; base-uri 'none'"), "{page}");
    assert!(page.contains("default-src 'none'"));
    assert!(!page.contains("<script"));
    let plain = render_page("x", &show(json!({"type": "text", "value": "x"})));
    assert!(plain.contains("img-src data:;"));
    assert_eq!(plain, render_page("x", &show(json!({"type": "text", "value": "x"}))));
}
